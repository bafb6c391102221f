"""The screen: what is printed adds up, fits the terminal, and no text of a process can touch it."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from ramledger.diagnose.advice import Advice
from ramledger.ledger import (
    Entry,
    LargeObject,
    Limit,
    Source,
    Statement,
    TypeCount,
    in_printing_order,
)
from ramledger.report.terminal.statement_text import LOG_WIDTH, open_console, print_statement
from ramledger.units import GIB, KIB, MIB, parse_bytes

HOSTILE = "[red]x[/red] \x1b[2J\x1b]0;owned\x07 \r\nfake row 9.9 GiB \u202e :boom:"


def statement(*entries: Entry, rss_bytes: int | None = None, **more: object) -> Statement:
    total = sum(entry.resident_bytes for entry in entries)
    fields: dict[str, object] = {
        "pid": 4711,
        "command": "python train.py",
        "at": 0.0,
        "rss_bytes": total if rss_bytes is None else rss_bytes,
        "entries": in_printing_order(entries),
        "vms_bytes": 4 * GIB,
        "threads": 3,
        "uptime_seconds": 7384.0,
        "limit": Limit(8 * GIB, "cgroup"),
        "facts": {"kind": "python"},
    }
    return Statement(**(fields | more))  # type: ignore[arg-type]


def entry(account: str, resident: int, source: Source = Source.PATH, **more: object) -> Entry:
    return Entry(account, resident, resident, source, **more)  # type: ignore[arg-type]


def printed(
    shown: Statement,
    *,
    width: int = 100,
    top: int = 20,
    advice: tuple[Advice, ...] = (),
    remarks: tuple[str, ...] = (),
    color: bool = False,
    encoding: str = "utf-8",
) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace", newline="")
    console = Console(file=stream, width=width, force_terminal=color, legacy_windows=False)
    print_statement(shown, advice, remarks, top=top, console=console)
    stream.flush()
    return raw.getvalue().decode(encoding)


ROW = re.compile(r"^(?P<account>\S.*?) +(?P<size>\d[\d.]* (?:B|KiB|MiB|GiB)) +[\d.]+%", re.M)


def table(text: str) -> dict[str, int]:
    return {found["account"]: parse_bytes(found["size"]) for found in ROW.finditer(text)}


@given(
    sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=60),
    unexplained=st.integers(0, 500),
    top=st.integers(1, 30),
    width=st.integers(60, 160),
)
def test_the_printed_rows_sum_to_rss(
    sizes: list[int], unexplained: int, top: int, width: int
) -> None:
    entries = [entry(f"variables/x.py:v{n}", size * 100 * KIB) for n, size in enumerate(sizes)]
    rss = (sum(sizes) + unexplained) * 100 * KIB
    rows = table(printed(statement(*entries, rss_bytes=rss), width=width, top=top))
    total = rows.pop("RSS")
    assert "unexplained" in rows
    assert len(rows) <= top + 2
    # a printed size is off by half of its last digit at most: 0.05 of its unit
    slack = sum(_half_a_digit(size) for size in [*rows.values(), total])
    assert abs(sum(rows.values()) - total) <= slack
    assert abs(total - rss) <= _half_a_digit(total)


def _half_a_digit(size: int) -> float:
    unit = next(unit for unit in (GIB, MIB, KIB, 1) if size >= unit or unit == 1)
    return 0.0501 * unit


def test_what_is_not_shown_is_one_row() -> None:
    entries = [entry(f"imports/p{n}", (40 - n) * MIB) for n in range(30)]
    rows = table(printed(statement(*entries), top=10))
    assert rows["20 smaller accounts"] == sum((40 - n) * MIB for n in range(10, 30))
    assert rows["RSS"] == pytest.approx(sum(e.resident_bytes for e in entries), rel=1e-3)


def test_rows_that_would_read_as_zero_are_summed() -> None:
    rows = table(printed(statement(entry("replay", 900 * MIB), entry("files/tiny", 4 * KIB))))
    assert "files/tiny" not in rows
    assert rows["1 smaller account"] == 4 * KIB


def test_an_empty_buffer_is_shown_for_what_it_reserves() -> None:
    empty = Entry("replay/observations", 0, 2 * GIB, Source.RECOGNIZED, fill=0.0)
    text = printed(statement(entry("imports/torch", 200 * MIB), empty))
    assert re.search(r"replay/observations +0 B +0\.0% +2\.0 GiB +0% filled", text)


def test_the_header_has_what_is_asked_first() -> None:
    head = printed(statement(entry("replay", 6 * GIB))).split("\n\n")[0]
    for fact in ("python train.py", "pid 4711", "RSS 6.0 GiB", "virtual 4.0 GiB", "3 threads"):
        assert fact in head
    assert "up 2 h 3 min" in head
    assert "75% of limit 8.0 GiB (cgroup)" in head


@pytest.mark.parametrize("width", [40, 60, 72, 80, 99, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long = "python " + "/very/long/path/" * 20 + "train.py"
    children = (statement(entry("heap/main", 40 * MIB), command=long, pid=4194303),)
    large = LargeObject("train.py:main." + "deep." * 40 + "x", "variables", "numpy.ndarray",
                        50 * MIB, 80 * MIB, "float64", (10_000, 1, 4, 84, 84), 0.5)  # fmt: skip
    shown = statement(
        entry("variables/train.py:main." + "deep." * 30, 50 * MIB, note="a note " * 30),
        entry("replay/観測", 12 * MIB, fill=0.25),
        rss_bytes=300 * MIB,
        command=long,
        children=children,
        large_objects=(large,),
        notes=("a very long note " * 10,),
    )
    advice = (Advice("title " * 5, "why " * 60, ("do " * 50,), 12 * MIB, at_most=True),)
    text = printed(shown, width=width, advice=advice, remarks=("remark " * 40,))
    widest = max(text.splitlines(), key=cell_len)
    assert cell_len(widest) <= width, widest
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_bar_never_wraps_and_a_row_is_one_line(width: int) -> None:
    entries = [entry(f"variables/train.py:main.x{n}.values", 20 * MIB) for n in range(5)]
    lines = printed(statement(*entries), width=width).splitlines()
    rows = [line for line in lines if line.startswith("variables/")]
    assert len(rows) == 5
    assert all("20.0 MiB" in row for row in rows)
    assert all(("█" in row) == (width >= 100) for row in rows)


@pytest.mark.parametrize("color", [False, True])
def test_text_of_the_process_is_inert(color: bool) -> None:
    large = LargeObject(HOSTILE, HOSTILE, HOSTILE, 50 * MIB, 80 * MIB, HOSTILE, (3,), 0.5)
    shown = statement(
        entry(HOSTILE, 20 * MIB, note=HOSTILE),
        command=HOSTILE,
        label=HOSTILE,
        notes=(HOSTILE,),
        large_objects=(large,),
        children=(statement(entry("heap/main", MIB), command=HOSTILE),),
    )
    advice = (Advice(HOSTILE, HOSTILE, (HOSTILE,), MIB, apply="replay"),)
    text = printed(shown, width=200, advice=advice, remarks=(HOSTILE,), color=color)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "[red]x[/red]" in plain  # markup is text
    assert ":boom:" in plain
    for dangerous in ("\x1b", "\x07", "\r", "\u202e"):
        assert dangerous not in plain
    assert not re.search(r"^fake row", plain, re.M)


def test_a_pipe_gets_no_color_and_a_terminal_does() -> None:
    shown = statement(entry("replay/observations", 20 * MIB))
    assert "\x1b[" not in printed(shown)
    assert "\x1b[" in printed(shown, color=True)


def test_marks_are_ascii_where_the_stream_is() -> None:
    advice = (Advice("title", "why", ("do",), 9 * MIB),)
    shown = statement(entry("replay/observations", 20 * MIB), entry("env", 9 * MIB))
    text = printed(shown, advice=advice, encoding="ascii")
    assert "\\u" not in text and "\\x" not in text
    assert "####" in text


def test_a_process_without_memory_is_one_sentence() -> None:
    text = printed(statement(facts={"kind": "kernel-thread"}, notes=("unknown",)))
    assert "a kernel thread: it has no memory of its own" in text
    assert "account" not in text


def test_the_tree_counts_shared_pages_once() -> None:
    children = tuple(
        statement(entry("heap/main", 150 * MIB), pid=4800 + n, pss_bytes=80 * MIB, threads=2)
        for n in range(3)
    )
    shown = statement(entry("heap/main", 300 * MIB), pss_bytes=200 * MIB, children=children)
    text = printed(shown, width=80)
    total = next(line for line in text.splitlines() if line.strip().startswith("total"))
    assert total.split() == ["total", "750.0", "MiB", "440.0", "MiB", "0", "B", "9"]
    assert all(f"{4800 + n}" in text for n in range(3))


def test_advice_has_its_saving_and_its_steps() -> None:
    advice = (
        Advice("give freed memory back", "malloc holds it", ("malloc_trim(0)", "or so"), 30 * MIB),
        Advice("bound what only grows", "a list", ("deque",), 12 * MIB, at_most=True),
    )
    text = printed(statement(entry("replay", 90 * MIB)), advice=advice, remarks=("no leak",))
    assert " 1. give freed memory back: saves 30.0 MiB\n" in text
    assert " 2. bound what only grows: saves up to 12.0 MiB\n" in text
    assert "    → malloc_trim(0)\n    → or so\n" in text
    assert "  · no leak\n" in text


def test_a_remedy_is_started_with_the_command_of_the_process() -> None:
    advice = (Advice("store once", "twice", ("by hand",), 30 * MIB, apply="replay"),)
    one = statement(entry("a", MIB), command="python train.py --name 'my run'")
    text = printed(one, advice=advice)
    command = "→ ramledger run --apply replay -- python train.py --name 'my run'"
    assert text.index(command) < text.index("→ by hand")


@pytest.mark.parametrize(
    ("inside", "said"), [(True, "nothing is seen that"), (False, "nothing is seen from outside")]
)
def test_no_advice_is_said_too(inside: bool, said: str) -> None:
    text = printed(statement(entry("replay", 90 * MIB), inside=inside))
    assert f"{said}{' that' if not inside else ''} would save 8.0 MiB or more" in text


def test_from_outside_it_says_how_to_see_more() -> None:
    outside = statement(entry("heap/main", 90 * MIB, Source.ALLOCATOR), inside=False)
    assert "--inside" in printed(outside)
    native = statement(entry("heap/main", 90 * MIB), inside=False, facts={"kind": "other"})
    assert "--inside" not in printed(native)


def test_a_log_is_wide_and_columns_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("os.isatty", lambda descriptor: False)
    assert open_console().width == LOG_WIDTH
    monkeypatch.setenv("COLUMNS", "71")
    assert open_console().width == 71


def test_live_objects_of_the_user_stand_before_all_others() -> None:
    types = [
        TypeCount("dict", 5_000, 3 * MIB),
        TypeCount("numpy.ndarray", 70, 40 * MIB),
        TypeCount("inspect.Parameter", 900, 2 * MIB),
        TypeCount("function", 60_000, 9 * MIB),
        TypeCount("__main__.TradingEnvironment", 2, 96),
        TypeCount("deals.Order", 12, 576),
    ]
    facts = {"kind": "python", "user_classes": ["deals.Order", "__main__.TradingEnvironment"]}
    text = printed(statement(entry("env", MIB), types=tuple(types), facts=facts))
    below = text.partition("live objects")[2].partition("\n\n")[0]
    rows = [line.split() for line in below.splitlines()[1:]]
    assert rows == [
        ["TradingEnvironment", "2"],
        ["deals.Order", "12"],
        ["numpy.ndarray", "70", "40.0", "MiB"],
        ["dict", "5,000", "3.0", "MiB"],
    ]


def test_a_statement_says_how_much_of_it_is_calibrated() -> None:
    rows = (entry("imports/torch", 3 * MIB, Source.CALIBRATED), entry("env", MIB))
    text = printed(statement(*rows))
    assert "owned 100.0%, calibrated 75.0% of RSS" in text
    assert "calibrated" not in printed(statement(entry("env", MIB)))
