"""Verbs where the surroundings are odd: streams closed or full, no folder, few descriptors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ramledger.recording import RECORDING_SCHEMA

COMMAND = str(Path(sys.executable).with_name("ramledger"))
GOOD = json.dumps({"schema": RECORDING_SCHEMA}) + "\n" + json.dumps({"event": "end", "t": 1}) + "\n"
VERBS = {
    "plan": 'plan "$IN/p.toml"',
    "run": 'run --quiet --out "$IN/r$$.ledger.jsonl" -- true',
    "diagnose": 'diagnose "$IN/g.ledger.jsonl"',
    "report": 'report "$IN/g.ledger.jsonl" --out "$IN/h$$.html"',
    "watch": "watch 1 --once --json",
}
# what comes before the command, what comes after it, and the codes that it may end with
SURROUNDINGS = {
    "no home": ("unset HOME;", "", {0}),
    "no environment": ("exec env -i IN=$IN", "", {0}),
    "a dumb terminal": ("export TERM=dumb LANG=C LC_ALL=C;", "", {0}),
    "no stdin": ("", "<&-", {0}),
    "no stdout": ("", ">&-", {0, 1}),
    "no stderr": ("", "2>&-", {0}),
    "no streams": ("", "<&- >&- 2>&-", {0, 1}),
    "nobody reads": ("", "| true", {0}),
    "stdout is full": ("", "> /dev/full", {0, 1}),
    "stderr is full": ("", "2> /dev/full", {0}),
    "the folder is gone": ("mkdir $IN/x; cd $IN/x; rmdir $IN/x;", "", {0}),
    "no folder for temporary files": ("export TMPDIR=/nowhere;", "", {0}),
    "nobody may read": ("umask 777;", "", {0}),
    "few descriptors": ("ulimit -n 16;", "", {0, 1}),
    "no file may grow": ("trap '' XFSZ; ulimit -f 0;", "", {0, 1}),
}  # fmt: skip


@pytest.mark.parametrize("surroundings", SURROUNDINGS)
@pytest.mark.parametrize("verb", VERBS)
def test_an_answer_or_one_clear_error(verb: str, surroundings: str, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(
        'algorithm = "PPO"\nobservation = "8"\naction = "discrete:2"\n'
    )
    (tmp_path / "g.ledger.jsonl").write_text(GOOD)
    before, after, codes = SURROUNDINGS[surroundings]
    done = subprocess.run(
        ["sh", "-c", f"{before} {COMMAND} {VERBS[verb]} {after}"],
        env={"IN": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode in codes, said
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert (tmp_path / "g.ledger.jsonl").read_text() == GOOD
    assert not list(tmp_path.glob("*.part"))
