"""Calibrated costs move bytes from what nobody owns to imports, and change nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from ramledger.ledger import Entry, Source, Statement
from ramledger.statement.calibrated import (
    NATIVE_POOL,
    NOT_WATCHED,
    OTHER,
    PYTHON_POOL,
    not_calibrated,
    with_calibrated,
)

MIB = 1 << 20
sizes = st.integers(0, 64 * MIB)


def statement(native: int, python: int, *more: Entry) -> Statement:
    entries = (
        Entry(NATIVE_POOL, native, native, Source.ALLOCATOR),
        Entry(PYTHON_POOL, python, python, Source.INTERPRETER),
        *more,
    )
    rss = sum(entry.resident_bytes for entry in entries) + 3
    return Statement(1, "python", 0.0, rss, entries, inside=True, notes=(NOT_WATCHED, "more"))


@given(sizes, sizes, st.dictionaries(st.sampled_from("abcdef"), st.tuples(sizes, sizes)))
def test_the_sum_stays_and_no_pool_gives_more_than_it_has(
    native: int, python: int, costs: dict[str, tuple[int, int]]
) -> None:
    before = statement(native, python)
    after = with_calibrated(before, {f"imports/{name}": pair for name, pair in costs.items()})
    assert after.rss_bytes == before.rss_bytes
    assert after.unexplained_bytes == before.unexplained_bytes
    assert after.named_fraction == before.named_fraction
    assert all(entry.resident_bytes >= 0 for entry in after.entries)
    wanted = [sum(pair[side] for pair in costs.values()) for side in (0, 1)]
    assert after.total("imports") <= min(native, wanted[0]) + min(python, wanted[1])
    assert after.total("imports") >= min(native, wanted[0]) + min(python, wanted[1]) - 2 * len(
        costs
    )


def test_each_pool_pays_for_its_own_side() -> None:
    after = with_calibrated(statement(50 * MIB, 30 * MIB), {"imports/torch": (20 * MIB, 10 * MIB)})
    assert after.total(NATIVE_POOL) == 30 * MIB
    assert after.total(PYTHON_POOL) == 20 * MIB
    assert after.total("imports/torch") == 30 * MIB


def test_nothing_calibrated_passes_for_measured() -> None:
    after = with_calibrated(statement(50 * MIB, 30 * MIB), {"imports/torch": (20 * MIB, 10 * MIB)})
    entry = after.get("imports/torch")
    assert entry is not None and entry.source is Source.CALIBRATED and entry.source.is_owner
    assert entry.note == "calibrated"
    assert NOT_WATCHED not in after.notes
    assert any(note.startswith("calibrated: ") for note in after.notes)


def test_what_the_process_measured_itself_stays() -> None:
    measured = Entry("imports/numpy", 5 * MIB, 5 * MIB, Source.IMPORT)
    after = with_calibrated(
        statement(50 * MIB, 30 * MIB, measured), {"imports/numpy": (9 * MIB, 9 * MIB)}
    )
    assert after.get("imports/numpy") == measured
    assert after.total(NATIVE_POOL) == 50 * MIB


def test_small_packages_are_one_row() -> None:
    costs = {f"imports/p{number}": (10_000, 1_000) for number in range(5)}
    after = with_calibrated(statement(50 * MIB, 30 * MIB), costs)
    assert after.total(OTHER) == after.total("imports") == 55_000


def test_without_a_calibration_the_reason_is_told() -> None:
    after = not_calibrated(statement(MIB, MIB), "not calibrated: no room")
    assert after.notes == (f"{NOT_WATCHED}; not calibrated: no room", "more")
    assert after.entries == statement(MIB, MIB).entries
