"""Which variables of malloc an earlier run or a plan speaks for."""

from dataclasses import replace
from typing import Any

import pytest

from ramledger.event_parts import Plan, PlannedAccount, PlannedRam
from ramledger.ledger import Entry, Source, Statement
from ramledger.remedies.malloc_choice import ARENAS, DEFAULT, THRESHOLD, allowed, choose
from ramledger.units import MIB

RSS = 1000 * MIB


def statement(
    main: int, in_threads: int = 0, arenas: int = 1, threads: int = 1, **more: Any
) -> Statement:
    """One of 1,000 MiB in which so many MiB are free."""
    free = (main + in_threads) * MIB
    listed = [{"index": 0, "free_bytes": main * MIB, "in_use_bytes": 0}]
    malloc = {"arenas": arenas, "free_bytes": free, "largest_arenas": listed}
    return Statement(
        7, "python train.py", 0.0, RSS, (Entry("allocator/free", free, free, Source.ALLOCATOR),),
        threads=threads, facts={"malloc": malloc, **more},
    )  # fmt: skip


def test_nothing_known_is_the_default() -> None:
    assert choose() is DEFAULT
    unknown = Statement(7, "python train.py", 0.0, RSS, ())  # from outside, or of another malloc
    assert choose([unknown], {7: RSS}) is DEFAULT


def test_arenas_of_threads() -> None:
    found = choose([statement(10), statement(8, 412, 34, 66)], {7: RSS})
    assert found.variables == {ARENAS: "2"}
    assert found.why == (
        "MALLOC_ARENA_MAX=2, because 412.0 MiB were free in 34 arenas of 66 threads"
    )


def test_the_main_heap() -> None:
    found = choose([statement(200, 10, 3, 4)], {7: RSS})
    assert found.variables == {THRESHOLD: "1048576"}
    assert "because 200.0 MiB were free in the main heap" in found.why


def test_both() -> None:
    found = choose([statement(200, 300, 20, 40)], {7: RSS})
    assert found.variables == {ARENAS: "2", THRESHOLD: "1048576"}


def test_little_free_memory_is_no_reason() -> None:
    found = choose([statement(40, 45, 20, 40)], {7: RSS})
    assert not found.variables
    assert found.why.startswith("no variable: near its peak, malloc kept 85.0 MiB free")


def test_free_memory_long_after_the_peak_is_no_reason() -> None:
    at_peak = replace(statement(0), rss_bytes=2 * RSS)
    later = statement(500)
    assert not choose([at_peak, later], {7: 2 * RSS}).variables
    assert choose([later], {7: 2 * RSS}) is DEFAULT  # no snapshot near the peak
    assert choose([later], {7: RSS}).variables


def test_free_address_space_that_is_not_resident_does_not_count() -> None:
    entry = Entry("allocator/free", 20 * MIB, 800 * MIB, Source.ALLOCATOR)
    facts = {"malloc": {"arenas": 1, "free_bytes": 800 * MIB, "largest_arenas": []}}
    trimmed = Statement(7, "python train.py", 0.0, RSS, (entry,), facts=facts)
    assert not choose([trimmed], {7: RSS}).variables


def test_what_the_earlier_run_had_is_kept() -> None:
    found = choose([statement(5, settings={THRESHOLD: "65536"})], {7: RSS})
    assert found.variables == {THRESHOLD: "65536"}


@pytest.mark.parametrize(("free", "expected"), [(200, {THRESHOLD: "1048576"}), (8, {})])
def test_a_plan(free: int, expected: dict[str, str]) -> None:
    row = PlannedAccount("allocator/free", bytes=free * MIB)
    plan = Plan(PlannedRam(RSS, RSS, RSS), (row,), peak_bytes=RSS)
    assert choose(plan=plan).variables == expected
    assert choose([statement(100)], {7: RSS}, plan).variables  # a run says more than a plan


def test_what_the_user_has_set_stays() -> None:
    found = choose([statement(200, 300, 20, 40)], {7: RSS})
    kept = allowed(found, {ARENAS: "8"})
    assert kept.variables == {THRESHOLD: "1048576"}
    assert kept.why == (
        "MALLOC_MMAP_THRESHOLD_=1048576, MALLOC_ARENA_MAX=8 was set before and stays"
    )
    tuned = allowed(found, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"})
    assert not tuned.variables
    assert tuned.why.startswith("no variable")
    other = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F"}
    assert allowed(found, other) is found
