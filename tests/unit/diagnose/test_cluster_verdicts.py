"""Recordings of a cluster: each process is judged by itself, and a leak has its worker's name."""

from typing import Any

from ramledger.diagnose.verdict import diagnose
from ramledger.event_parts import ObjectStore, ProcessMemory
from ramledger.events import Event, NoteEvent, ProcessEvent, SampleEvent
from ramledger.run.model import Run
from ramledger.units import MIB


def process(pid: int, name: str, role: str = "env runner") -> ProcessEvent:
    return ProcessEvent(t=0.0, pid=pid, name=name, role=role, node="10.0.0.1", node_pid=pid)


def level(base: int, generation: int, leak: float = 0.0) -> ProcessMemory:
    wobble = (generation * 7919) % 13 * 8192
    return ProcessMemory(round(base + generation * leak) + wobble, MIB, threads=1)


def recording(*more: Event, leaking: int = 0, store: float = 0.0, stale: bool = False) -> Run:
    events: list[Event] = [process(1, "driver", "driver")]
    events += [process(pid, f"env runner {pid - 1}") for pid in (2, 3, 4)]
    events += [
        SampleEvent(
            t=float(generation),
            generation=generation,
            processes={
                pid: level(200 * MIB, generation, 2 * MIB if pid == leaking else 0)
                for pid in (1, 2, 3, 4)
            },
            stale_pids=(4,) if stale else (),
            object_store=ObjectStore(used_bytes=round(MIB + store * generation)) if store else None,
        )
        for generation in range(30)
    ]
    run = Run(keep_events=True)
    for event in (*events, *more):
        run.take(event)
    return run


def verdicts(found: Any) -> dict[str, str]:
    return {worker["name"]: worker["verdict"] for worker in found.facts["workers"]}


def test_one_leaking_runner_is_named_and_no_other() -> None:
    found = diagnose(recording(leaking=3))
    assert found.verdict == "leak"
    assert len(found.leaks) == 1
    assert "env runner 2 (pid 3 on 10.0.0.1)" in found.leaks[0].summary
    assert abs(found.leaks[0].bytes_per_generation - 2 * MIB) < MIB / 5
    others = {name: verdict for name, verdict in verdicts(found).items() if name != "env runner 2"}
    assert set(others.values()) == {"healthy"}


def test_flat_processes_are_healthy_and_the_driver_comes_first() -> None:
    found = diagnose(recording())
    assert found.verdict == "healthy"
    assert next(iter(verdicts(found))) == "driver"
    assert "4 processes" in found.reason


def test_an_object_store_that_only_grows_is_a_leak_of_its_own() -> None:
    found = diagnose(recording(store=4 * MIB))
    assert found.verdict == "leak"
    assert [leak.culprit.type for leak in found.leaks] == ["object store"]


def test_a_worker_that_never_reports_anew_leaves_it_undecided() -> None:
    found = diagnose(recording(stale=True))
    assert found.verdict == "undecided"
    assert "env runner 3" in found.reason


def test_a_note_on_the_whole_run_is_no_object_store() -> None:
    found = diagnose(recording(NoteEvent(t=30.0, text="a node left")))
    assert list(verdicts(found)) == ["driver", "env runner 1", "env runner 2", "env runner 3"]
