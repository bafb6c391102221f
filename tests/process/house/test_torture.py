"""The attacks themselves: they notice harm, leave nothing behind, and stop when asked."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.waiting import wait_until
from tests.torture import table
from tests.torture.hostile import Result, _require_same
from tests.torture.tries import (
    PROGRAMS,
    HarmedError,
    Row,
    SkippedError,
    Try,
    Work,
    one_try,
    require,
)


def test_a_row_counts_what_was_harmed_and_what_was_left_out() -> None:
    def attempt(current: Try) -> None:
        if current.name == "bad":
            require(False, "it hangs")
        if current.name == "absent":
            raise SkippedError("not here")
        if current.name == "broken":
            raise ValueError("ours")

    names = ["good", "bad", "absent", "broken", "good"]
    row = Work(seed=1, workers=2).run(Row("what"), names, attempt)
    assert (row.tries, len(row.failures), len(row.skipped)) == (4, 2, 1)
    text = "\n".join(table.lines([row]))
    assert "| what | 4 | 2 | 1 left out |" in text
    assert "it hangs" in text and "ValueError: ours" in text and "absent: not here" in text


def test_the_same_seed_gives_the_same_moments() -> None:
    numbers: list[list[float]] = [[], []]
    for found in numbers:
        with one_try("name", 3, seed=7) as current:
            found.append(current.random.random())
    assert numbers[0] == numbers[1]


def test_a_try_leaves_no_process_and_no_folder() -> None:
    code = "import os, time\nif os.fork() == 0: os.setsid()\nprint(os.getpid(), flush=True)\n"
    with one_try("name", 0, seed=1) as current:
        process = current.start(sys.executable, "-c", code + "time.sleep(600)")
        assert process.stdout is not None
        pids = [int(process.stdout.readline()) for _ in range(2)]
        folder = current.folder
    process.communicate(timeout=100)
    assert not folder.exists()
    wait_until(lambda: not any(is_running(pid) for pid in pids))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


SABOTAGE = """
import os, signal, sys, threading, time
def harm():
    while not os.path.exists("go"):
        time.sleep(0.01)
    {what}
    os.mkdir("harmed")
threading.Thread(target=harm, daemon=True).start()
"""


@pytest.mark.parametrize(
    ("what", "noticed"),
    [
        ("pass", ""),
        ("sys.path.append('x')", "sys.path"),
        ("os.close(5)", "descriptor"),
        ("null = os.open('/dev/null', 0); os.dup2(null, 4)", "descriptor"),
        ("sys.setswitchinterval(0.01)", "switch interval"),
        ("sys.modules['hashlib'].sha256 = sys.modules['hashlib'].sha1", "wrong"),
    ],
)
def test_a_target_notices_what_is_done_to_it(what: str, noticed: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SABOTAGE.format(what=what))
    process = subprocess.Popen(
        [sys.executable, str(PROGRAMS / "target.py"), "threads", "return"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)}, cwd=tmp_path,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    ready = process.stdout.readline()
    (tmp_path / "go").touch()
    wait_until(lambda: not (not (tmp_path / "harmed").exists() and process.poll() is None))
    out, err = process.communicate(timeout=100)
    assert ready == "ready\n", err
    if process.returncode == 5:
        facts = json.loads(out)
        assert facts["rounds"] > 0
        text = f"{facts['lost']} {facts['changed']} {'wrong' if facts['wrong'] else ''}"
        assert noticed in text if noticed else not (facts["lost"] or facts["changed"]), text
    else:  # it met the harm itself
        assert noticed == "descriptor" and "Error: [Errno" in err


@pytest.mark.parametrize(
    ("watched", "noticed"),
    [
        (Result(0, "OK\n", "ramledger: recording: r.ledger.jsonl\n"), ""),
        (Result(1, "OK\n", ""), "ends with 1"),
        (Result(0, "OK", ""), "says"),
        (Result(0, "OK\n", "Traceback (most recent call last):\nOSError: x\n"), "OSError: x"),
        (Result(0, "OK\n", "a warning\n"), "complains"),
    ],
)
def test_a_program_is_compared_with_itself_alone(watched: Result, noticed: str) -> None:
    plain = Result(0, "OK\n", "")
    if not noticed:
        _require_same(plain, watched)
        return
    with pytest.raises(HarmedError, match=noticed):
        _require_same(plain, watched)


def torture(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.torture", *arguments], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def test_kills_of_saves_and_of_a_recorder() -> None:
    process = torture("save", "load", "upload", "recorder", "--tries", "2", "--workers", "1")
    out, err = process.communicate(timeout=250)
    assert process.returncode == 0, out + err
    assert "| `kill -9` of a save | 2 | 0 |" in out


def test_control_c_ends_it_with_the_table_so_far(tmp_path: Path) -> None:
    process = torture("save", "entries", "--tries", "20")
    assert process.stderr is not None
    for line in process.stderr:
        if "busy program" in line:
            break
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 130
    assert "| `kill -9` of a save | 20 | 0 |" in out


def test_the_page_has_a_place_for_the_table(tmp_path: Path) -> None:
    page = tmp_path / "torture.md"
    page.write_text(table.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    row = Row("what", tries=3, failures=[f"{Path('/tmp') / 'x' / 'name.py'}: it hangs"])
    for _ in range(2):
        table.write([row], seed=1, seconds=90, page=page)
    text = page.read_text(encoding="utf-8")
    assert text.count("| what | 3 | 1 |  |") == 1
    assert "…/name.py: it hangs" in text and "/tmp" not in text
