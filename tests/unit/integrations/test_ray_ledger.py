"""The books of a cluster and its reporters, without Ray: numbers, names, limits of growth."""

import ctypes
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from ramledger.event_parts import ProcessMemory
from ramledger.events import Header, ProcessEndEvent, ProcessEvent, SampleEvent
from ramledger.integrations.cluster.process_report import NodeLimits, ProcessReport
from ramledger.integrations.cluster.ray_ledger import ClusterLedger, cluster_header
from ramledger.integrations.cluster.ray_reporter import Reporter, node_limits
from ramledger.ledger import Limit
from ramledger.recording import Recording
from ramledger.units import MIB

KIB_OF_A_REPORT = 1


def report(pid: int, name: str, anon: int = 100 * MIB, node: str = "10.0.0.1") -> ProcessReport:
    return ProcessReport(
        pid=pid, node=node, name=name, role=name.rstrip(" 0123456789"),
        memory=ProcessMemory(anon, MIB, threads=3),
        limits=NodeLimits(limit_bytes=1 << 34, kill_bytes=1 << 33), node_used_bytes=1 << 32,
    )  # fmt: skip


def run(tmp_path: Path, iterations: int, workers: int = 3) -> tuple[Recording, dict[str, Any]]:
    books = ClusterLedger()
    path = str(tmp_path / "run.ledger.jsonl")
    assert books.begin("a", path, cluster_header(["train.py"], "a"), False) == ""
    summary: dict[str, Any] = {}
    for number in range(iterations):
        for index in range(1, workers + 1):
            grown = number * MIB if index == 2 else 0
            books.note("a", report(10 + index, f"env runner {index}", 100 * MIB + grown))
        summary = books.iteration("a", number, report(1, "driver"), {"used_bytes": 5})
    diagnosis, others = books.end("a")
    assert diagnosis is not None
    assert others == 0
    return Recording.read(path), {**summary, "diagnosis": diagnosis}


def test_the_summary_names_the_runner_that_grows_most(tmp_path: Path) -> None:
    recording, found = run(tmp_path, 20)
    assert found["processes"] == 4
    assert found["env_runners"]["growth_max_name"] == "env runner 2"
    assert found["env_runners"]["growth_max_bytes"] == 17 * MIB  # since its third report
    assert found["nodes"]["10.0.0.1"]["kill_bytes"] == 1 << 33
    assert found["object_store"] == {"used_bytes": 5}
    assert "env runner 2" in found["diagnosis"].reason
    assert recording.is_complete
    assert {e.node for e in recording.of_type(ProcessEvent)} == {"10.0.0.1"}


def test_a_long_run_of_many_workers_stays_small(tmp_path: Path) -> None:
    recording, _ = run(tmp_path, 3_000, workers=40)
    samples = list(recording.of_type(SampleEvent))
    assert len(samples) < 600
    assert (samples[-1].generation or 0) > 2_900  # thinned out, not cut off
    assert os.path.getsize(recording.path) < 3_000_000


def test_processes_of_two_nodes_may_have_the_same_id(tmp_path: Path) -> None:
    books = ClusterLedger()
    path = str(tmp_path / "two.ledger.jsonl")
    books.begin("a", path, Header(), False)
    books.note("a", report(7, "env runner 1"))
    books.note("a", report(7, "env runner 2", node="10.0.0.2"))
    books.iteration("a", 1, report(1, "driver"), None)
    books.end("a")
    found = list(Recording.read(path).of_type(ProcessEvent))
    assert len({e.pid for e in found}) == 3
    assert [e.node_pid for e in found] == [7, 7, 1]


def test_a_runner_that_was_restarted_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    books = ClusterLedger()
    path = str(tmp_path / "again.ledger.jsonl")
    books.begin("a", path, Header(), False)
    books.note("a", report(7, "env runner 1"))
    books.note("a", report(8, "env runner 1"))
    assert books.iteration("a", 1, report(1, "driver"), None)["processes"] == 2
    books.end("a")
    assert [e.pid for e in Recording.read(path).of_type(ProcessEndEvent)] == [7]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "cannot write" in ClusterLedger().begin("a", str(tmp_path / "x"), Header(), False)


def test_a_place_that_cannot_be_written_is_told_and_the_run_goes_on() -> None:
    books = ClusterLedger()
    assert "cannot write" in books.begin("a", "/proc/no.ledger.jsonl", Header(), False)
    assert books.iteration("a", 1, report(1, "driver"), None)["processes"] == 1
    assert books.end("a") == (None, 0)


def test_a_late_statement_and_an_unknown_run_are_nothing() -> None:
    books = ClusterLedger()
    books.note("gone", report(7, "env runner 1"))
    assert books.iteration("gone", 1, report(1, "driver"), None) == {}
    assert books.end("gone") == (None, 0)


def test_a_reporter_keeps_to_its_period_and_its_report_is_small() -> None:
    sent: list[ProcessReport] = []
    reporter = Reporter("env runner 1", "env runner", "10.0.0.1", 60.0, sent.append)
    for _ in range(100):
        reporter.report()
    assert len(sent) == 1
    assert sent[0].memory.anon_bytes > MIB
    assert len(pickle.dumps(sent[0])) < KIB_OF_A_REPORT * 1024


def test_a_reporter_looks_inside_only_when_it_grows() -> None:
    ctypes.CDLL(None).malloc_trim(0)  # what other tests freed would be used again
    sent: list[ProcessReport] = []
    reporter = Reporter("env runner 1", "env runner", "10.0.0.1", 0.0, sent.append)
    kept = []
    for _ in range(6):
        reporter.report()
    assert not any(one.snapshot for one in sent)
    assert reporter.last_report() is None
    for _ in range(3):
        kept.append(bytearray(b"x" * (48 * MIB)))
        reporter.report()
    snapshots = [one.snapshot for one in sent if one.snapshot is not None]
    assert len(snapshots) >= 1
    assert snapshots[0].statement.pid == os.getpid()
    assert pickle.loads(pickle.dumps(snapshots[0])) == snapshots[0]


def test_a_failing_way_to_the_actor_never_reaches_the_training() -> None:
    def broken(_: ProcessReport) -> None:
        raise OSError("the actor is gone")

    Reporter("env runner 1", "env runner", "10.0.0.1", 0.0, broken).report()


def test_the_threshold_of_rays_monitor_comes_from_its_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.5")
    limit = Limit(1 << 34, "host RAM")
    assert node_limits(limit) == NodeLimits(1 << 34, "host RAM", 1 << 33)
    monkeypatch.setenv("RAY_memory_usage_threshold", "rubbish")
    assert node_limits(limit).kill_bytes == round((1 << 34) * 0.95)
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    assert node_limits(limit).kill_bytes is None
    assert node_limits(None) == NodeLimits()
