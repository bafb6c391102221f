"""A real notebook in a real kernel: magics, displays, the live line, a recording, its verdict."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from ramledger.units import parse_bytes

pytestmark = pytest.mark.xdist_group("notebook")

MIB = 1 << 20
CELLS = {
    "load": "%load_ext ramledger\nimport ramledger, time\nkept = []",
    "line": "%ramledger",
    "grows": (
        "%%ramledger fill\n"
        "history = [bytearray(b'x') * 2_000_000 for _ in range(20)]\n"
        "len(history)"
    ),
    "uses": "answer = len(history) + 22\nanswer",
    "raises": "%%ramledger\nkept.append('before')\n1 / 0",
    "wrong": "%%ramledger\ndef f(:",
    "awaits": "%%ramledger\nimport asyncio\nawait asyncio.sleep(0)",
    "record": (
        "ledger = ramledger.record(out='run.ledger.jsonl')\n"
        "for generation in range(12):\n"
        "    ledger.generation(generation)\n"
        "    history.append(bytearray(b'x') * 2_000_000)\n"
        "    time.sleep(0.6)"
    ),
    "quiet": "ramledger.record(out='other.ledger.jsonl') is not None",
    "diagnose": "ramledger.diagnose('run.ledger.jsonl')",
    "report": "ramledger.report('run.ledger.jsonl', out='page.html')",
    "plan": "ramledger.plan({'algorithm': 'SAC', 'env': 'HalfCheetah-v4'}, buffer_size=200_000)",
    "statement": "ledger.snapshot('<b>now</b>')",
    "growth": "more = bytearray(b'x') * 5_000_000\nledger.growth('<b>now</b>')",
    "unload": "%unload_ext ramledger\n%ramledger",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def outputs(folder: Path) -> dict[str, list[Any]]:
    """What every cell shows, once the notebook has run to its end."""
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]  # type: ignore[no-untyped-call]
    notebook = nbformat.v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook, timeout=200, kernel_name="python3", allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
    )  # fmt: skip
    client.execute()
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def data(outputs: list[Any], kind: str) -> list[str]:
    return [one.data[kind] for one in outputs if "data" in one and kind in one.data]


def errors(outputs: list[Any]) -> list[str]:
    return [one.ename for one in outputs if one.output_type == "error"]


class Tags(HTMLParser):
    """Every tag and attribute of a text, and every cell of its tables."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.styles: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style"}
        self.styles += [value or "" for _, value in attrs]
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_no_cell_fails_but_those_that_are_meant_to(outputs: dict[str, list[Any]]) -> None:
    failed = {name: errors(shown) for name, shown in outputs.items() if errors(shown)}
    assert failed == {
        "raises": ["ZeroDivisionError"],
        "wrong": ["SyntaxError"],
    }


def test_a_cell_that_awaits_is_refused_in_a_notebook(outputs: dict[str, list[Any]]) -> None:
    (said,) = outputs["awaits"]
    assert said.name == "stderr"
    assert said.text.startswith("UsageError: %%ramledger cannot run a cell with `await`")


def test_the_line_magic_shows_the_statement(outputs: dict[str, list[Any]]) -> None:
    (text,) = data(outputs["line"], "text/plain")
    sizes = [
        parse_bytes(size) for size in re.findall(r"^  \S.*?  +([\d.]+ [KMG]?i?B)  ", text, re.M)
    ]
    assert "unexplained" in text
    assert sum(sizes[:-1]) == pytest.approx(sizes[-1], rel=0.02)


def test_the_cell_magic_shows_what_the_cell_added(outputs: dict[str, list[Any]]) -> None:
    result, text = data(outputs["grows"], "text/plain")
    assert result == "20"
    headline, *rows = text.splitlines()
    before, after, growth = re.findall(r"[\d.]+ [KMG]iB", headline)[:3]
    assert headline.startswith("fill: RSS ")
    assert parse_bytes(growth) > 36 * MIB
    assert parse_bytes(after) - parse_bytes(before) == pytest.approx(parse_bytes(growth), abs=MIB)
    owner = next(row for row in rows if "variables/history" in row)
    assert parse_bytes(re.findall(r"\+([\d.]+ [KMG]iB)", owner)[0]) == pytest.approx(40e6, rel=0.02)
    assert "largest now:" in rows


def test_a_cell_leaves_its_names_behind(outputs: dict[str, list[Any]]) -> None:
    assert data(outputs["uses"], "text/plain") == ["42"]


def test_a_cell_that_raises_shows_its_growth_and_one_traceback(
    outputs: dict[str, list[Any]],
) -> None:
    (growth,) = data(outputs["raises"], "text/plain")
    assert "RSS" in growth
    (error,) = [one for one in outputs["raises"] if one.output_type == "error"]
    assert "1" in error.traceback[-2] and "division by zero" in error.traceback[-1]


def test_one_line_follows_the_recording(outputs: dict[str, list[Any]]) -> None:
    (line,) = data(outputs["record"], "text/plain")
    assert re.search(r"RAM [\d.]+ MiB \(\+[\d.]+ MiB since the start\)", line)
    assert "run.ledger.jsonl" in line
    numbers = re.search(r"iteration (\d+)", line)
    assert numbers is not None and int(numbers[1]) > 3
    # a process is recorded once, and its line is there already
    assert data(outputs["quiet"], "text/plain") == ["True"]


def test_the_recording_is_judged_while_it_is_written(
    outputs: dict[str, list[Any]], folder: Path
) -> None:
    (short,) = data(outputs["diagnose"], "text/plain")
    (html,) = data(outputs["diagnose"], "text/html")
    assert short.startswith("<Diagnosis leak")
    assert "history" in html and "MiB an iteration" in html
    assert data(outputs["report"], "text/plain") == ["'page.html'"]
    assert (folder / "page.html").read_bytes().startswith(b"<!doctype html>")


@pytest.mark.parametrize(
    "cell", ["line", "grows", "record", "diagnose", "plan", "statement", "growth"]
)
def test_displays_are_small_tables_without_scripts_and_colors(
    outputs: dict[str, list[Any]], cell: str
) -> None:
    html = data(outputs[cell], "text/html")[-1]
    found = Tags(html)
    assert not found.open
    assert found.tags <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert not re.search(
        r"(?<!-)color:|background:(?!none)|url\(|position:", " ".join(found.styles)
    )
    assert len(html) < 30_000
    assert ("table" in found.tags) == (cell != "record")


@pytest.mark.parametrize("cell", ["diagnose", "plan", "statement", "growth"])
def test_what_a_console_prints_is_one_short_line(outputs: dict[str, list[Any]], cell: str) -> None:
    (text,) = data(outputs[cell], "text/plain")
    assert len(text.splitlines()) == 1
    assert len(text) < 250


def test_names_of_others_are_text(outputs: dict[str, list[Any]]) -> None:
    for cell in ("statement", "growth"):
        (html,) = data(outputs[cell], "text/html")
        assert "<b>" not in html
        assert "&lt;b&gt;now&lt;/b&gt;" in html


def test_after_unloading_there_is_no_magic(outputs: dict[str, list[Any]]) -> None:
    shown = "".join(one.get("text", "") for one in outputs["unload"])
    assert "`%ramledger` not found" in shown


def in_ipython(*lines: str) -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        "-m",
        "IPython",
        "--quick",
        "--colors=nocolor",
        "-c",
        "\n".join(lines),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def test_in_a_terminal_it_is_text_and_await_works(tmp_path: Path) -> None:
    done = in_ipython(
        "%load_ext ramledger",
        "%ramledger",
        "import asyncio",
        "get_ipython().run_cell_magic('ramledger', 'waits', 'await asyncio.sleep(0)')",
        f"import ramledger; ledger = ramledger.record(out={str(tmp_path / 'r.ledger.jsonl')!r})",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "unexplained" in done.stdout
    assert "waits: RSS " in done.stdout
    assert "recording into" not in done.stdout


def test_without_ipython_nothing_of_it_is_loaded() -> None:
    program = (
        "import sys, ramledger\n"
        "ramledger.record(); ramledger.diagnose; ramledger.report; ramledger.plan\n"
        "loaded = {'IPython', 'ramledger.integrations.ipython', 'ramledger.html_tables',"
        " 'ramledger.recorder.notebook_line', 'numpy', 'msgspec', 'rich'} & set(sys.modules)\n"
        "sys.exit(str(loaded) if loaded else 0)\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
