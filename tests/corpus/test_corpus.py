"""Every recording of the corpus, judged: the same as judgement.txt says, and no verdict worse.

Programs: `programs/`; what is true of them: `labels/`; to record them again: `make corpus`.
"""

import difflib
import json
import re
from pathlib import Path
from typing import Any

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
    not_recorded,
    recordings,
    table,
)
from tests.corpus.judge import text_of as judgement_of
from tests.corpus.labels import LABELS, LOADED, MODES, PROGRAMS, Label, modes, programs
from tests.corpus.paced import paced, phase_seconds
from tests.corpus.record import UNDER_LOAD

pytestmark = pytest.mark.xdist_group("corpus")  # judged once

MAX_BYTES = 25_000_000
LEAST_SECONDS = 20
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
    assert {Label.of(name).name for name, _ in recorded} == {name for name, _ in recorded}


def test_every_label_has_its_recordings() -> None:
    assert not not_recorded(), "python -m tests.corpus.record --missing"
    recorded = {name_and_mode(path) for path in recordings()}
    assert {path.stem for path in LABELS.glob("*.toml")} <= {name for name, _ in recorded}
    loaded = {(name, mode) for name, mode in recorded if name.endswith(LOADED)}
    assert loaded == {(name + LOADED, mode) for name in UNDER_LOAD for mode in MODES}


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


def test_a_recording_is_of_one_run() -> None:
    strange = {path.name: said for path in recordings() if (said := _oddities(path))}
    assert not strange


def _oddities(path: Path) -> list[str]:
    """What shows that a recording is cut off, too short or of two runs in one file."""
    header, *events = map(json.loads, text_of(path).splitlines())
    processes = [event for event in events if event.get("event") == "process"]
    pids = {event["pid"] for event in processes}
    roots = {event["pid"] for event in processes if _is_root(event, pids)}
    ends = [event for event in events if event.get("event") in ("end", "run-end")]
    checks = {
        "a header": header["schema"].startswith("ramledger.recording/"),
        "events only, after it": all("event" in event for event in events),
        "one root process": len(roots) == 1,
        "one end": [end.get("exit_code") or 0 for end in ends] == [0],
        "events of its processes": all(event.get("pid", 0) in pids | {0} for event in events),
        "long enough": max(event["t"] for event in events) >= LEAST_SECONDS,
    }
    return [f"not {check}" for check, is_so in checks.items() if not is_so]


def _is_root(process: dict[str, Any], pids: set[int]) -> bool:
    if process.get("role"):  # of a cluster, where no process has a parent
        return bool(process["role"] == "driver")
    return process["parent_pid" if "parent_pid" in process else "parent"] not in pids


def test_a_machine_path_keeps_its_last_part_and_an_address_nothing() -> None:
    assert anonymous({"a": ["/tmp/x1/.venv/bin/python train.py"]}) == {"a": ["python train.py"]}
    assert anonymous("/dev/shm/psm_1") == "/dev/shm/psm_1"
    assert anonymous("raylet --ip=10.1.2.3 -c=" + 200 * "e") == "raylet --ip=192.0.2.1 -c="
    assert anonymous("http://127.0.0.1:80 1.2.3") == "http://127.0.0.1:80 1.2.3"


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
