"""Where memory grows: by phases, by functions, and for memory outside of the process."""

from dataclasses import replace
from typing import Any

from ramledger.diagnose.growth_places import leaking_phase, outside_phase
from ramledger.diagnose.growth_table import growth_table
from ramledger.diagnose.verdict import diagnose
from ramledger.events import FunctionGrowthEvent, PhaseEvent, SampleEvent
from ramledger.run.timeline import build_timeline
from tests.support.made_up_recordings import MIB, PID, generations, phases, recording, sample

RISING = [100 + 6.0 * i for i in range(14)]


def functions(**growth: dict[str, float]) -> list[FunctionGrowthEvent]:
    """One event a second, the same growth by function in each, in MiB."""
    named: dict[str, Any] = {
        f"{level}_bytes": {f"train.py:{name}": round(size * MIB) for name, size in sizes.items()}
        for level, sizes in growth.items()
    }
    return [FunctionGrowthEvent(t=float(i), pid=PID, **named) for i in range(14)]


def net(growth: dict[str, list[float]], level: str = "net_growth_bytes") -> list[PhaseEvent]:
    """Phases whose growth as measured says nothing, and whose net growth says all."""
    found = []
    for event in phases(growth):
        changed: dict[str, Any] = {level: event.growth_bytes, "growth_bytes": 50 * MIB}
        found.append(replace(event, **changed))
    return found


def test_what_is_released_elsewhere_is_taken_from_its_phase() -> None:
    events = net({"play": [0.0] * 14, "breed": [6.0] * 14})
    timeline = build_timeline(recording(*generations(RISING), *events))
    assert leaking_phase(growth_table(timeline)) == "breed"


def test_growth_outside_of_all_phases_has_a_function() -> None:
    events = [*net({"train": [0.1] * 14}), *functions(growth={"trial": 6.0, "train": 0.1})]
    timeline = build_timeline(recording(*generations(RISING), *events))
    assert leaking_phase(growth_table(timeline)) == "trial"


def samples(shm: list[float]) -> list[SampleEvent]:
    return [sample(i + 1.0, {PID: 100}, shm_bytes=round(size * MIB)) for i, size in enumerate(shm)]


def test_shared_memory_is_found_in_the_phase_that_fills_it() -> None:
    events = net({"publish": [5.0] * 14, "learn": [0.0] * 14}, "shm_growth_bytes")
    flat = generations([100.0] * 14)
    rising = samples([5.0 * i for i in range(14)])
    timeline = build_timeline(recording(*flat, *events, *rising))
    assert outside_phase(timeline, "shm") == "publish"
    found = diagnose(recording(*flat, *events, *rising))
    assert found.leaks[0].phase == "publish"
    assert found.leaks[0].bytes_per_generation == 5 * MIB


def test_shared_memory_without_phases_has_a_function() -> None:
    events = functions(shm_growth={"publish": 5.0}, growth={"learn": 1.0})
    rising = samples([5.0 * i for i in range(14)])
    timeline = build_timeline(recording(*generations([100.0] * 14), *events, *rising))
    assert outside_phase(timeline, "shm") == "publish"
