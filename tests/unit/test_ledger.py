"""The books balance: entries plus unexplained are RSS, in memory, in JSON and between two dates."""

import json
import re
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramledger.errors import ConfigError
from ramledger.ledger import (
    Entry,
    LargeObject,
    Limit,
    Source,
    Statement,
    TypeCount,
    in_printing_order,
    is_below,
)
from ramledger.units import parse_bytes
from tests.support.places import ROOT

MIB = 1 << 20
DOCUMENTATION = ROOT / "docs" / "statement.md"

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
amounts = st.integers(min_value=0, max_value=1 << 48)
fills = st.none() | st.floats(min_value=0, max_value=1)
entries = st.builds(
    Entry,
    account=names,
    resident_bytes=amounts,
    reserved_bytes=amounts,
    source=st.sampled_from(Source),
    objects=st.none() | amounts,
    fill=fills,
    note=names,
)


@st.composite
def statements(draw: st.DrawFn, *, with_children: bool = True) -> Statement:
    booked = tuple(draw(st.lists(entries, max_size=6)))
    rest = draw(amounts)
    child = statements(with_children=False)
    return Statement(
        pid=draw(st.integers(1, 1 << 22)),
        command=draw(names),
        at=draw(st.floats(0, 1e10)),
        rss_bytes=sum(e.resident_bytes for e in booked) + rest,
        entries=booked,
        limit=draw(st.none() | st.builds(Limit, bytes=amounts, source=names)),
        label=draw(names),
        inside=draw(st.booleans()),
        facts=draw(st.dictionaries(names, amounts, max_size=3)),
        large_objects=tuple(draw(st.lists(large_objects, max_size=2))),
        types=tuple(draw(st.lists(st.builds(TypeCount, names, amounts, amounts), max_size=2))),
        notes=tuple(draw(st.lists(names, max_size=2))),
        children=tuple(draw(st.lists(child, max_size=2))) if with_children else (),
    )


large_objects = st.builds(
    LargeObject,
    path=names,
    account=names,
    type=names,
    resident_bytes=amounts,
    reserved_bytes=amounts,
    dtype=names,
    shape=st.tuples(amounts, amounts),
    fill=fills,
    shared_with=st.tuples(names),
)


def half_filled_run() -> Statement:
    return Statement(
        pid=47068,
        command="python train.py",
        at=1.0,
        rss_bytes=100 * MIB,
        entries=(
            Entry("replay/observations", 78 * MIB, 156 * MIB, Source.CLAIM, objects=1, fill=0.5),
            Entry("allocator/free", 10 * MIB, 10 * MIB, Source.ALLOCATOR, note="malloc_trim"),
            Entry("libraries/torch", 7 * MIB, 60 * MIB, Source.LIBRARY),
        ),
        vms_bytes=300 * MIB,
        threads=3,
        uptime_seconds=7384,
        limit=Limit(bytes=2048 * MIB, source="cgroup"),
        label="epoch 3",
        notes=("pagemap could not be read",),
    )


# the one invariant ---------------------------------------------------------------------------


@given(statements())
def test_entries_and_unexplained_are_rss_in_memory_and_in_json(statement: Statement) -> None:
    for document in each_document(statement.to_dict()):
        booked = sum(account["resident_bytes"] for account in document["accounts"])
        assert booked + document["unexplained_bytes"] == document["rss_bytes"]
        assert document["unexplained_bytes"] >= 0


def each_document(document: dict[str, Any]) -> list[dict[str, Any]]:
    below = [found for child in document["children"] for found in each_document(child)]
    return [document, *below]


def test_booking_more_than_rss_is_refused() -> None:
    balanced = half_filled_run()
    with pytest.raises(ConfigError, match="exceed RSS by 1 bytes"):
        replace(balanced, rss_bytes=95 * MIB - 1)
    assert replace(balanced, rss_bytes=95 * MIB).unexplained_bytes == 0


def test_a_statement_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        half_filled_run().rss_bytes = 1  # type: ignore[misc]


# what people ask of it -----------------------------------------------------------------------


def test_named_counts_mechanisms_and_owned_does_not() -> None:
    statement = half_filled_run()
    assert statement.unexplained_bytes == 5 * MIB
    assert statement.named_fraction == pytest.approx(0.95)
    assert statement.owned_fraction == pytest.approx(0.85)


@given(statements())
def test_owned_is_never_more_than_named(statement: Statement) -> None:
    assert 0 <= statement.owned_fraction <= statement.named_fraction + 1e-9
    assert statement.named_fraction <= 1


def test_an_empty_process_is_fully_named() -> None:
    nothing = Statement(pid=2, command="kthreadd", at=0.0, rss_bytes=0, entries=())
    assert (nothing.named_fraction, nothing.owned_fraction) == (1.0, 1.0)
    assert "unexplained" in str(nothing)


def test_mechanisms_are_no_owners() -> None:
    mechanisms = {source for source in Source if not source.is_owner}
    assert mechanisms == {Source.ALLOCATOR, Source.INTERPRETER, Source.KERNEL}


def test_accounts_are_found_by_name_and_summed_by_prefix() -> None:
    statement = half_filled_run()
    found = statement.get("replay/observations")
    assert found is not None
    assert found.reserved_bytes == 156 * MIB
    assert statement.get("replay") is None
    assert statement.total("replay") == 78 * MIB
    assert statement.total("repla") == 0


def test_below_means_the_account_or_what_lies_under_it() -> None:
    assert is_below("replay", "replay")
    assert is_below("replay/observations", "replay")
    assert not is_below("replays", "replay")
    assert not is_below("replay", "replay/observations")


@given(st.lists(entries))
def test_printing_order_is_largest_first_and_keeps_every_entry(given_entries: list[Entry]) -> None:
    ordered = in_printing_order(given_entries)
    keys = [(-entry.resident_bytes, entry.account) for entry in ordered]
    assert keys == sorted(keys)
    assert sorted(map(repr, ordered)) == sorted(map(repr, given_entries))


# JSON ----------------------------------------------------------------------------------------


@given(statements())
def test_json_reads_back_as_the_same_statement(statement: Statement) -> None:
    text = json.dumps(statement.to_dict())
    assert Statement.from_dict(json.loads(text)) == statement


def test_a_reader_ignores_fields_it_does_not_know() -> None:
    statement = replace(
        half_filled_run(),
        large_objects=(LargeObject("main.replay", "replay", "ndarray", 1, 2),),
        types=(TypeCount("ndarray", 1, 2),),
        children=(half_filled_run(),),
    )
    document = statement.to_dict()
    for place in (
        document,
        document["accounts"][0],
        document["large_objects"][0],
        document["types"][0],
        document["children"][0],
    ):
        place["from_the_future"] = {"deep": [1]}
    assert Statement.from_dict(document) == statement


def test_unexplained_is_derived_and_cannot_be_forged() -> None:
    document = half_filled_run().to_dict() | {"unexplained_bytes": 0, "named_fraction": 1.0}
    assert Statement.from_dict(document).unexplained_bytes == 5 * MIB


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"schema": "ramledger.statement/2"},
        {"schema": "ramledger.statement/1", "accounts": []},
        half_filled_run().to_dict() | {"accounts": [{"account": "x"}]},
        half_filled_run().to_dict()
        | {
            "accounts": [
                {"account": "x", "resident_bytes": 1, "reserved_bytes": 1, "source": "guess"}
            ]
        },
    ],
    ids=["empty", "newer schema", "no pid", "entry without bytes", "unknown source"],
)
def test_what_is_no_statement_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Statement.from_dict(document)


def test_the_documentation_names_every_field_and_source() -> None:
    page = DOCUMENTATION.read_text(encoding="utf-8")
    statement = replace(
        half_filled_run(),
        large_objects=(LargeObject("main.replay", "replay", "ndarray", 1, 2),),
        types=(TypeCount("ndarray", 1, 2),),
    ).to_dict()
    parts = [statement["accounts"], statement["large_objects"], statement["types"]]
    fields = set(statement).union(*(part[0] for part in parts), statement["limit"])
    assert not {field for field in fields if f"`{field}`" not in page}
    assert not {source for source in Source if f'`"{source}"`' not in page}


# differences ---------------------------------------------------------------------------------


@given(statements(), statements())
def test_growths_sum_to_the_growth_of_rss(before: Statement, after: Statement) -> None:
    difference = before.diff(after)
    total = sum(change.growth_bytes for change in difference.changes)
    assert total == after.rss_bytes - before.rss_bytes == difference.rss_growth_bytes
    assert difference.to_dict()["rss_growth_bytes"] == total
    assert sum(c["growth_bytes"] for c in difference.to_dict()["changes"]) == total


@given(statements())
def test_nothing_grew_from_a_statement_to_itself(statement: Statement) -> None:
    nothing = {"rss_growth_bytes": 0, "changes": [], "count_changes": []}
    assert statement.diff(statement).to_dict() == nothing


def test_difference_prints_the_largest_change_first() -> None:
    before = half_filled_run()
    grown = replace(before.entries[0], resident_bytes=98 * MIB, fill=0.63)
    after = replace(
        before,
        label="epoch 4",
        rss_bytes=110 * MIB,
        entries=(grown, *before.entries[2:]),
    )
    lines = str(before.diff(after)).splitlines()
    assert lines[0] == "from 'epoch 3' to 'epoch 4': RSS +10.0 MiB"
    assert [line.split()[0] for line in lines[1:]] == ["replay/observations", "allocator/free"]
    assert lines[1].endswith("+20.0 MiB")
    assert lines[2].endswith("-10.0 MiB")


# printing ------------------------------------------------------------------------------------


def test_prints_a_table_that_can_be_added_up() -> None:
    lines = str(half_filled_run()).splitlines()
    assert lines[0] == "epoch 3: python train.py (pid 47068)"
    assert "limit 2.0 GiB (cgroup)" in lines[1]
    assert "2 h 3 min" in lines[1]
    rows = {line.split()[0]: line for line in lines[3:8]}
    assert rows["replay/observations"].split()[1:] == [
        *("78.0", "MiB", "78.0%", "156.0", "MiB", "50%", "filled"),
    ]
    assert "malloc_trim" in rows["allocator/free"]
    assert rows["unexplained"].split()[1:] == ["5.0", "MiB", "5.0%"]
    assert rows["RSS"].split()[1:3] == ["100.0", "MiB"]
    assert lines[8].strip() == "named 95.0%, owned 85.0% (seen from outside)"
    assert lines[9].strip() == "note: pagemap could not be read"


def test_columns_line_up() -> None:
    rows = str(half_filled_run()).splitlines()[3:8]
    ends_of_resident = {row.index("MiB") for row in rows}
    assert len(ends_of_resident) == 1


def test_swap_is_printed_only_where_there_is_some() -> None:
    assert "swap" not in str(half_filled_run())
    assert "swap 1.0 MiB" in str(replace(half_filled_run(), swap_bytes=MIB))


def test_a_notebook_shows_the_same_table_escaped() -> None:
    statement = replace(half_filled_run(), command="python -c 'print(1 < 2 & 3)'")
    html = statement._repr_html_()
    assert "1 &lt; 2 &amp; 3" in html
    cells = re.findall(r">([^<>]*)</td>", html)
    printed = [line.split() for line in str(statement).splitlines()[3:8]]
    for name, size, unit, share, *_ in printed:
        at = cells.index(name)
        assert cells[at + 1 : at + 3] == [f"{size} {unit}", share]


def test_a_notebook_gets_no_tag_from_names_that_others_chose() -> None:
    evil = "<script>alert(1)</script>"
    entry = Entry(evil, MIB, MIB, Source.PATH, note=evil)
    before = Statement(7, evil, 0.0, MIB, (entry,), label=evil, notes=(evil,))
    after = replace(before, entries=(), types=(TypeCount(evil, 3, 100),))
    for html in (before._repr_html_(), before.diff(after)._repr_html_()):
        assert "<script" not in html
        assert "&lt;script&gt;" in html


def test_growth_in_a_notebook_sums_to_that_of_rss() -> None:
    entries = tuple(Entry(f"a{i}", i * MIB, i * MIB, Source.PATH) for i in range(1, 20))
    before = Statement(7, "train.py", 0.0, 0, ())
    after = Statement(7, "train.py", 1.0, 200 * MIB, entries)
    html = before.diff(after)._repr_html_()
    rows = re.findall(r"<tr>(.*?)</tr>", html)
    growths = [parse_bytes(row.rpartition("+")[2].removesuffix("</td>")) for row in rows[1:]]
    assert "all others" in rows[-2] and "RSS" in rows[-1]
    assert sum(growths[:-1]) == growths[-1] == 200 * MIB


def test_one_that_nobody_catches_is_one_short_line() -> None:
    statement = half_filled_run()
    for shown in (repr(statement), repr(statement.diff(statement))):
        assert len(shown.splitlines()) == 1
        assert len(shown) < 120
        assert "RSS" in shown
