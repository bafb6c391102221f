"""A diagnosis as Markdown and as annotations: what it says, and that no name in it can do harm."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ramledger.cli.main import main
from ramledger.diagnose.comparison import Change, Comparison, Rate
from ramledger.diagnose.finding import (
    Cause,
    CodeLines,
    Culprit,
    Diagnosis,
    Finding,
    GrowthLine,
    Kind,
    Verdict,
)
from ramledger.ledger import printable
from ramledger.report.ci.code_places import CodePlace, code_place, path_in
from ramledger.report.ci.diagnosis_markdown import comparison_markdown, diagnosis_markdown
from ramledger.report.ci.github_annotations import annotations
from ramledger.report.ci.markdown_text import code, sentence, table
from tests.support.report_events import in_time_order, leaking_run, lines_of

MIB = 1 << 20
EVIL = (
    "x` | <img src=x onerror=alert(1)> | **bold** [a](javascript:1) @someone #12 https://a.b\n"
    "::error::owned\n## heading\r\n::set-output name=a::b\u2028\u202e\\| `` $a$ ~~b~~ <!-- "
)
STORED = "train.py:7 in Journal.log: self.pages.append(page)"

texts = st.text(st.characters(codec="utf-8"), max_size=60) | st.text(
    "`|\\<>&*_[]()!#@:~$\n a-", max_size=40
)


def rendered(markdown: str) -> str:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return str(parser.render(markdown))


def text_of(html: str) -> str:
    without_comments = html.replace("<!-- -->", "")
    shown = re.sub(r"<[^>]*>", "", without_comments)
    return (
        shown.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")
    )


@given(texts)
def test_a_sentence_reads_as_it_is_and_is_one_paragraph(text: str) -> None:
    html = rendered(f"x {sentence(text)} x")
    assert re.findall(r"<(?!!-- -->)/?(\w+)", html) == ["p", "p"]
    assert text_of(html).strip() == f"x {printable(text)} x"


@given(texts)
def test_code_reads_as_it_is_in_a_cell_of_a_table(text: str) -> None:
    html = rendered(table(("a", "b"), [(code(text), "end")]))
    (cell, end) = re.findall(r"<td[^>]*>(.*?)</td>", html, re.S)
    assert end == "end"
    assert set(re.findall(r"<(?!!-- -->)/?(\w+)", cell)) <= {"code"}
    assert text_of(cell).split() == printable(text).split()


def evil_diagnosis(text: str) -> Diagnosis:
    line = GrowthLine(text, MIB, MIB, (MIB, MIB), 1.0, "linear")
    rest = replace(line, account="unexplained", growth_bytes=0)
    leak = Finding(
        Kind.LEAK, text, phase=text, cause=Cause.UNBOUNDED_CONTAINER, culprit=Culprit(text, text),
        bytes_per_generation=MIB, evidence=(text,), advice=text, fault=text,
        code=CodeLines(stored_at=(text, STORED)),
    )  # fmt: skip
    return Diagnosis(
        Verdict.LEAK, text, 12, (leak, replace(leak, summary="other")), notes=(text,),
        growth=(line, rest), growth_total=replace(line, account="RSS"), growth_span=(0.0, 12.0),
    )  # fmt: skip


OUR_TAGS = {"h3", "p", "ul", "li", "code", "table", "thead", "tbody", "tr", "th", "td", "strong",
            "details", "summary"}  # fmt: skip


@pytest.mark.parametrize("text", [EVIL, "</details>", "```\n", "| a | b |"])
def test_nothing_in_a_comment_is_made_of_names(text: str) -> None:
    found = evil_diagnosis(text)
    for markdown in (
        diagnosis_markdown(text, found),
        comparison_markdown((text, found), (text, replace(found, verdict=Verdict.HEALTHY))),
    ):
        html = rendered(markdown)
        assert set(re.findall(r"<(?!!--)/?(\w+)", html)) <= OUR_TAGS
        assert html.count("<h3") == html.count("<details") == 1
        # a mention and a link are made of text that is not code, after Markdown
        plain = re.sub(r"<code>.*?</code>", "", html, flags=re.S)
        assert not re.search(r"@\w|#\d|://\w", plain)
        widths = {
            line.replace("\\|", "").count("|") for line in markdown.splitlines() if line[:1] == "|"
        }
        assert widths <= {4, 7, 8}


@given(texts)
def test_no_name_becomes_a_command_of_the_runner(text: str) -> None:
    lines = "\n".join(annotations(evil_diagnosis(text), lambda place: f"src/{place.file}"))
    for line in lines.splitlines():
        level, _, rest = line.removeprefix("::").partition(" ")
        assert line.startswith("::") and level == "error"
        properties, _, _message = rest.partition("::")
        assert re.fullmatch(r"(file=src/train\.py,line=7,)?title=memory%3A leak", properties)


def decoded(text: str) -> str:
    """As the runner of GitHub reads the text of a command."""
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def test_an_annotation_says_all_of_a_leak_at_its_line() -> None:
    found = evil_diagnosis("100%25 done")
    first, *_ = annotations(found, lambda place: place.file)
    assert first.startswith("::error file=train.py,line=7,title=memory%3A leak::")
    message = decoded(first.partition("leak::")[2]).splitlines()
    assert message[0] == "100%25 done"
    assert "what to do: 100%25 done" in message


@pytest.mark.parametrize(
    ("change", "level"),
    [(Change.WORSE, "error"), (Change.FIXED, "notice"), (Change.SAME, "notice")],
)
def test_a_comparison_is_the_first_annotation(change: Change, level: str) -> None:
    healthy = Diagnosis(Verdict.HEALTHY, "memory is flat", 12)
    comparison = Comparison(change, "a sentence", Rate(), Rate())
    first, verdict = annotations(healthy, lambda _: "", comparison)
    assert first == f"::{level} title=memory%3A {change}::a sentence"
    assert verdict == "::notice title=memory%3A healthy::memory is flat"


# ---- files of a checkout -----------------------------------------------------------------------


def test_a_line_is_found_where_its_text_is(tmp_path: Path) -> None:
    place = code_place(STORED)
    assert place == CodePlace("train.py", 7, "self.pages.append(page)")
    right, wrong = tmp_path / "pkg" / "train.py", tmp_path / "old" / "train.py"
    for path, text in ((right, "self.pages.append(page)"), (wrong, "pass")):
        path.parent.mkdir()
        path.write_text("\n" * 6 + f"        {text}\n")
    assert path_in(str(tmp_path), place) == "pkg/train.py"


def test_what_is_in_doubt_or_no_source_of_the_user_is_not_named(tmp_path: Path) -> None:
    place = CodePlace("train.py", 1, "x = 1")
    for folder in (".git", "site-packages", "env/lib"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "train.py").write_text("x = 1\n")
    (tmp_path / "env" / "pyvenv.cfg").touch()
    assert path_in(str(tmp_path), place) == ""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text("x = 1\n")
    assert path_in(str(tmp_path), place) == ""
    (tmp_path / "two" / "train.py").write_text("y = 1\n")
    assert path_in(str(tmp_path), place) == "one/train.py"


@pytest.mark.parametrize(
    "line", ["", "memory grew", "../../etc/x.py:1 in f", "t.py:0 in f: x", "t.py:x in f"]
)
def test_what_is_no_place_is_none(line: str) -> None:
    assert code_place(line) is None


# ---- the command -------------------------------------------------------------------------------


@pytest.fixture
def recording(tmp_path: Path) -> str:
    path = tmp_path / "train.ledger.jsonl"
    path.write_text(lines_of(in_time_order(leaking_run(12))))
    return str(path)


def test_the_summary_of_a_job_gets_what_markdown_prints(
    recording: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert main(["diagnose", recording, "--format", "markdown"]) == 3
    printed = capsys.readouterr().out
    assert printed.startswith("<!-- ramledger -->\n\n### ")
    assert summary.read_text() == "before\n"
    assert main(["diagnose", recording, "--format", "github"]) == 3
    assert summary.read_text() == "before\n" + printed
    assert all(line.startswith("::") for line in capsys.readouterr().out.splitlines())


def test_a_summary_that_cannot_be_written_changes_no_verdict(
    recording: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/nowhere/summary.md")
    assert main(["diagnose", recording, "--format", "github"]) == 3
    shown = capsys.readouterr()
    assert "::error" in shown.out
    assert "/nowhere/summary.md" in shown.err


def test_one_form_at_a_time(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", recording, "--json", "--format", "github"]) == 1
    assert main(["diagnose", recording, "--format", "html"]) == 2
    assert capsys.readouterr().out == ""


def test_a_comparison_in_each_form(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("markdown", "github"):
        assert main(["diagnose", recording, "--compare", recording, "--format", form]) == 3
        assert "same" in capsys.readouterr().out
