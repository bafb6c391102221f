"""Every recording of the corpus, judged: the same as judgement.txt says, and no verdict worse.

Programs: `programs/`; what is true of them: `labels/`; to record them again: `make corpus`.
"""

import difflib
import re
from pathlib import Path

import pytest

from tests.corpus.compact import anonymous, text_of
from tests.corpus.judge import (
    DOCUMENT,
    JUDGEMENT,
    QUESTIONS,
    Grade,
    document_with,
    grade,
    judge_all,
    name_and_mode,
    recordings,
    table,
)
from tests.corpus.judge import text_of as judgement_of
from tests.corpus.labels import LABELS, MODES, PROGRAMS, Label, modes, programs
from tests.corpus.paced import paced, phase_seconds

MAX_BYTES = 25_000_000
CAUSES = {
    "unbounded-container", "object-pinned", "pinned-by-small-owner", "graph-retention",
    "native-leak", "allocator-retention", "outside-process", "gc-off",
}  # fmt: skip
KINDS = {"filling", "warm-up", "spike", "level-shift", "file-pages", "sawtooth", "waste", "none"}
ACCEPT = "accept it with `python -m tests.corpus.judge --write` and read the diff"


@pytest.fixture(scope="module")
def grades() -> list[Grade]:
    return judge_all(recordings())


def test_the_corpus_is_judged_as_written_down(
    grades: list[Grade], capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print("\n" + "\n".join(table(grades)))
    written, now = JUDGEMENT.read_text(encoding="utf-8"), judgement_of(grades)
    changes = difflib.unified_diff(
        written.splitlines(), now.splitlines(), "judgement.txt", "now", lineterm="", n=0
    )
    assert written == now, f"the judgement changed; {ACCEPT}\n" + "\n".join(changes)


def test_the_documentation_has_the_tables_of_today(grades: list[Grade]) -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document_with(grades), ACCEPT


def test_no_verdict_is_worse_than_written_down(grades: list[Grade]) -> None:
    written = JUDGEMENT.read_text(encoding="utf-8").splitlines()
    right = {line.split()[1] for line in written if line.startswith(("ok ", "part "))}
    worse = [g.line for g in grades if g.name in right and g.line.startswith("MISS")]
    assert not worse, "verdicts that were right before:\n" + "\n".join(worse)


def test_every_program_and_every_recording_has_a_label() -> None:
    found = {
        path.stem for path in PROGRAMS.rglob("*.py") if path.stem.startswith(("leaky", "heal"))
    }
    assert found == set(programs())
    recorded = {name_and_mode(path) for path in recordings()}
    assert len(recorded) > 300
    assert {Label.of(name).name for name, _ in recorded} == {name for name, _ in recorded}


def test_every_label_answers_every_question() -> None:
    labels = [Label.of(path.stem) for path in LABELS.glob("*.toml")]
    assert {label.verdict for label in labels} == {"leak", "healthy"}
    ours = [label for label in labels if label.name in programs()]
    assert all(label.questions == set(QUESTIONS) for label in ours if label.leaks)
    assert {cause for label in labels for cause in label.causes} == CAUSES
    assert {kind for label in labels for kind in label.kinds} == KINDS
    assert all(label.questions == {"kind"} for label in ours if not label.leaks)


def test_recordings_are_small_and_name_no_machine() -> None:
    files = recordings()
    assert sum(path.stat().st_size for path in files) <= MAX_BYTES
    for path in files:
        text = text_of(path)
        assert anonymous(text) == text, path.name
        assert '"directory":""' in text.partition("\n")[0]


def test_a_machine_path_keeps_its_last_part() -> None:
    assert anonymous({"a": ["/tmp/x1/.venv/bin/python train.py"]}) == {"a": ["python train.py"]}
    assert anonymous("/dev/shm/psm_1") == "/dev/shm/psm_1"


@pytest.mark.parametrize("mode", MODES)
def test_programs_are_paced_in_their_own_functions(mode: str) -> None:
    for name in programs():
        if mode not in modes(name) or modes(name) == ("bare",):
            continue
        source = next(PROGRAMS.rglob(f"{name}.py")).read_text(encoding="utf-8")
        text = paced(source, mode)
        compile(text, name, "exec")
        assert phase_seconds(source) >= 0.3
        assert len(re.findall(r"_pace\.begin", text)) == len(re.findall(r"with phase\(", text))
        assert ("ramledger.record()" in text) == (mode == "marked")


def test_a_grade_compares_field_by_field() -> None:
    label = Label(
        "x", "leak", phase="train", functions=("fit",), culprits=("Buffer",),
        causes=("object-pinned",), bytes_per_iteration=1 << 20, onset=3,
    )  # fmt: skip
    leak = {
        "kind": "leak", "phase": "fit", "cause": "object-pinned", "onset_generation": 4,
        "culprit": {"type": "__main__.Buffer", "path": "train.py:KEPT"},
        "bytes_per_generation": 1.3 * (1 << 20), "interval_bytes": [1e6, 2e6],
    }  # fmt: skip
    found = grade(label, "bare", {"verdict": "leak", "findings": [leak]})
    assert {q: getattr(found, q) for q in QUESTIONS} == {
        "place": True, "cause": True, "culprit": True, "rate": False, "onset": True,
    }  # fmt: skip
    assert found.line.startswith("part x-bare ")
    assert found.line.endswith("(wrong: rate)")
    assert grade(label, "marked", {"verdict": "leak", "findings": [leak]}).place is False
    missed = grade(label, "bare", {"verdict": "healthy", "findings": []})
    assert missed.line.startswith("MISS")


def test_the_path_of_a_recording_says_what_it_is() -> None:
    assert name_and_mode(Path("leaky_holes-loaded-bare.jsonl.xz")) == ("leaky_holes-loaded", "bare")
