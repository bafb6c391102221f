"""Remarks say what is so, not what to save: each on a statement made for it, and on a near miss."""

from typing import Any

import pytest

from ramledger.diagnose import remarks as rules
from ramledger.diagnose.remarks import remarks
from ramledger.ledger import Entry, Limit, Source, Statement, in_printing_order
from ramledger.units import GIB, KIB, MIB


def statement(*entries: Entry, **more: Any) -> Statement:
    fields: dict[str, Any] = {
        "pid": 1,
        "command": "python train.py",
        "at": 0.0,
        "rss_bytes": sum(entry.resident_bytes for entry in entries) + 100 * MIB,
        "entries": in_printing_order(entries),
        "threads": 53,
        "inside": True,
    }
    return Statement(**(fields | more))


def entry(account: str, resident: int, reserved: int | None = None, **more: Any) -> Entry:
    reserved = resident if reserved is None else reserved
    return Entry(account, resident, reserved, Source.RECOGNIZED, **more)


def stacks(count: int, reserved: int, resident: int) -> dict[str, Any]:
    sizes = {"count": count, "reserved_bytes": reserved, "resident_bytes": resident}
    return {"thread_stacks": sizes}


def test_the_belief_about_stacks_is_answered_with_numbers() -> None:
    text = rules.thread_stacks(statement(facts=stacks(53, 424 * MIB, 424 * KIB)))
    assert "53 thread stacks reserve 424.0 MiB of address space and hold 424.0 KiB of RAM" in text
    assert "fewer threads would save at most that" in text


@pytest.mark.parametrize("facts", [{}, stacks(4, 32 * MIB, 64 * KIB), stacks(53, 0, 0)])
def test_few_threads_need_no_answer(facts: dict[str, Any]) -> None:
    assert rules.thread_stacks(statement(facts=facts)) == ""


ARENAS = Entry("heap/thread arenas", 200 * MIB, 900 * MIB, Source.ALLOCATOR)


def test_from_outside_arenas_are_seen_and_nothing_is_promised() -> None:
    text = rules.thread_arenas(statement(ARENAS, inside=False, facts={"thread_arenas": 16}))
    assert "53 threads made 16 malloc arenas, which hold 200.0 MiB" in text
    assert "--inside" in text
    assert "save" not in text


@pytest.mark.parametrize(
    ("inside", "arenas", "held"), [(True, 16, 200 * MIB), (False, 2, 200 * MIB), (False, 16, MIB)]
)
def test_arenas_that_need_no_word(inside: bool, arenas: int, held: int) -> None:
    held_entry = Entry("heap/thread arenas", held, held, Source.ALLOCATOR)
    shown = statement(held_entry, inside=inside, facts={"thread_arenas": arenas})
    assert rules.thread_arenas(shown) == ""


def test_a_buffer_takes_what_its_fill_says_not_all_that_it_reserved() -> None:
    """Address space for the shortest episodes is no forecast."""
    shown = statement(
        entry("replay/obs", 50 * MIB, 4 * GIB, fill=0.25), limit=Limit(1 * GIB, "cgroup")
    )
    assert "grows by up to 150.0 MiB" in rules.still_filling(shown)
    assert "will not fit" not in rules.still_filling(shown)
    begun = entry("replay/obs", 4 * MIB, 4 * GIB, fill=0.001)
    assert begun.full_bytes == 4 * GIB


def test_a_buffer_that_fills_is_no_leak() -> None:
    text = rules.still_filling(
        statement(
            entry("replay/observations", 70 * MIB, 270 * MIB, fill=0.25),
            entry("replay/next_observations", 70 * MIB, 270 * MIB, fill=0.25),
            limit=Limit(8 * GIB, "cgroup"),
        )
    )
    expected = "replay is 25% full: RSS grows by up to 400.0 MiB until it is full"
    assert text.startswith(expected)
    assert "no leak" in text


def test_a_buffer_that_will_not_fit_is_said_so_before_it_happens() -> None:
    text = rules.still_filling(
        statement(
            entry("replay/observations", 1 * GIB, 8 * GIB, fill=0.125),
            limit=Limit(4 * GIB, "cgroup"),
        )
    )
    assert "it needs up to 7.0 GiB more" in text
    assert "only 2.9 GiB are left under the limit of 4.0 GiB (cgroup): it will not fit" in text
    assert "no leak" not in text


@pytest.mark.parametrize(
    "buffer",
    [
        entry("replay/observations", 270 * MIB, 270 * MIB, fill=1.0),
        entry("rollout/observations", 270 * MIB, 270 * MIB, fill=0.5),
        entry("variables/x.py:a", 70 * MIB, 270 * MIB),
    ],
    ids=["full", "touched at once", "no buffer"],
)
def test_what_does_not_fill(buffer: Entry) -> None:
    assert rules.still_filling(statement(buffer)) == ""


def test_the_time_to_fill_is_told_after_a_while() -> None:
    buffer = entry("replay/observations", 70 * MIB, 270 * MIB, fill=0.25)
    early = rules.still_filling(statement(buffer, uptime_seconds=60.0))
    late = rules.still_filling(statement(buffer, uptime_seconds=3600.0))
    assert "full in" not in early
    assert "at the pace since it started, full in 3 h" in late


@pytest.mark.parametrize(("limit", "is_near"), [(1000 * MIB, False), (110 * MIB, True)])
def test_the_limit_is_named_when_it_is_near(limit: int, is_near: bool) -> None:
    text = rules.near_the_limit(statement(limit=Limit(limit, "cgroup")))
    assert bool(text) == is_near
    if is_near:
        assert "91% of the limit of 110.0 MiB (cgroup): 10.0 MiB are left" in text


def test_a_tree_is_held_against_the_limit_by_pss() -> None:
    child = statement(pss_bytes=50 * MIB)
    shown = statement(children=(child, child), pss_bytes=90 * MIB, limit=Limit(200 * MIB, "cgroup"))
    assert "95% of the limit" in rules.near_the_limit(shown)
    assert rules.near_the_limit(statement(limit=Limit(200 * MIB, "cgroup"))) == ""


def test_no_limit_is_no_remark() -> None:
    assert rules.near_the_limit(statement()) == ""
    assert rules.near_the_limit(statement(limit=Limit(0, "none"))) == ""


@pytest.mark.parametrize(("count", "is_said"), [(999, False), (12_345, True)])
def test_kept_graphs(count: int, is_said: bool) -> None:
    text = rules.kept_graphs(statement(facts={"tensors_with_graph": count}))
    assert bool(text) == is_said
    assert not is_said or "12,345 live tensors carry a grad_fn" in text


def test_why_training_takes_a_multiple_of_the_networks() -> None:
    state = [entry("networks/actor", 20 * MIB), entry("gradients", 20 * MIB)]
    text = rules.training_state(statement(*state, entry("optimizer", 40 * MIB)))
    assert "networks take 20.0 MiB, their gradients 20.0 MiB and the optimizer 40.0 MiB" in text
    assert rules.training_state(statement(*state, entry("optimizer", 4 * MIB))) == ""
    assert rules.training_state(statement(entry("optimizer", 40 * MIB), state[1])) == ""


def test_the_urgent_comes_first_and_silence_is_possible() -> None:
    shown = statement(
        limit=Limit(101 * MIB, "cgroup"),
        facts=stacks(53, 424 * MIB, 424 * KIB) | {"tensors_with_graph": 5000},
    )
    first, second, third = remarks(shown)
    assert "limit" in first and "grad_fn" in second and "stacks" in third
    assert remarks(statement()) == []
