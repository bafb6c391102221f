"""The command as a user runs it: help, exit codes, and one line on stderr for what went wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

import pytest

from ramledger.cli.main import exit_code_of
from ramledger.errors import ConfigError, RamledgerError
from tests.support.slow_notice import without_slow_notice

COMMAND = Path(sys.executable).with_name("ramledger")
NO_SUCH_PID = "4194304"  # the kernel numbers processes below this


def ramledger(
    *arguments: str, stdout: int | TextIO = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=100,
    )
    done.stderr = without_slow_notice(done.stderr)
    return done


def test_alone_it_prints_help() -> None:
    alone, asked = ramledger(), ramledger("--help")
    assert (alone.returncode, alone.stderr) == (0, "")
    assert alone.stdout == asked.stdout
    assert "ramledger explain 47068" in alone.stdout


def test_help_and_version_load_no_verb_and_no_framework() -> None:
    program = (
        "import sys; from ramledger.cli.main import main\n"
        "codes = [main(['--help']), main(['--version'])]\n"
        "heavy = {'ramledger.cli.explain', 'numpy', 'torch', 'msgspec'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy or any(codes) else 0)\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_version_is_one_line() -> None:
    from importlib.metadata import version

    assert ramledger("--version").stdout == version("ramledger") + "\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["explain"], "PIDS"),
        (["explain", "1", "--match", "train"], "PIDS"),
        (["explain", "python"], "python"),
        (["explain", "0"], "0"),
        (["explain", "-5"], "-5"),
        (["explain", "1", "--bogus"], "--bogus"),
        (["explain", "1", "--top", "0"], "--top"),
        (["explain", "99999999999999999999"], "99999999999999999999"),
    ],
)
def test_wrong_usage_is_one_line_a_hint_and_code_2(arguments: list[str], named: str) -> None:
    done = ramledger(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    line, hint = done.stderr.splitlines()
    assert line.startswith("ramledger: ")
    assert named in line
    assert hint.startswith("  hint: ramledger ")
    assert hint.endswith("--help")


VERBS = {"check-env", "diagnose", "explain", "plan", "quickstart", "replay", "report", "run",
         "serve", "train", "watch"}  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "meant", "verbs"),
    [
        (["explian", "1"], "explain", VERBS),
        (["dianose", "x.jsonl"], "diagnose", VERBS),
        (["xyz"], "", VERBS),
        (["replay", "verfy"], "verify", {"export", "inspect", "verify"}),
    ],
)
def test_an_unknown_verb_lists_all_with_a_line_each_and_the_nearest(
    arguments: list[str], meant: str, verbs: set[str]
) -> None:
    done = ramledger(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    first, *listed, hint = done.stderr.splitlines()
    assert first.startswith("ramledger: there is no `ramledger ")
    assert first.endswith(f": did you mean {meant}?" if meant else "`")
    assert {line.split()[0] for line in listed} == verbs
    assert all(len(line.split()) > 3 for line in listed)
    assert hint.startswith("  hint: ramledger ") and hint.endswith("--help")


@pytest.mark.parametrize(
    "verb",
    [(), *((verb,) for verb in sorted(VERBS)), ("replay", "inspect"), ("replay", "verify"),
     ("replay", "export"), ("train", "evaluate"), ("--install-completion",)],
    ids=" ".join,
)  # fmt: skip
def test_help_has_examples_and_fits_80_columns(verb: tuple[str, ...]) -> None:
    environment = {**os.environ, "COLUMNS": "80", "TERM": "dumb"}
    command = [str(COMMAND), *verb, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
    lines = done.stdout.splitlines()
    assert not [line for line in lines if len(line) > 80]
    examples = done.stdout.partition("Examples:")[2].splitlines()
    assert any(line.startswith(" ".join(("  ramledger", *verb))) for line in examples)
    # none was broken to make it fit
    assert all(not line or line.startswith("  ") for line in examples if "Exit codes" not in line)


def test_an_unknown_process_is_one_line_and_code_1() -> None:
    done = ramledger("explain", NO_SUCH_PID, "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("ramledger: ")
    assert NO_SUCH_PID in done.stderr
    assert "Traceback" not in done.stderr


def test_one_process_is_one_document_and_its_books_balance() -> None:
    with sleeping_process() as sleeper:
        done = ramledger("explain", str(sleeper.pid), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    booked = sum(account["resident_bytes"] for account in document["accounts"])
    assert booked + document["unexplained_bytes"] == document["rss_bytes"] > 0
    assert document["pid"] == sleeper.pid
    assert isinstance(document["advice"], list)


def test_an_error_on_one_process_does_not_hide_the_others() -> None:
    with sleeping_process() as sleeper:
        done = ramledger("explain", NO_SUCH_PID, str(sleeper.pid), "--json")
    assert done.returncode == 1
    assert NO_SUCH_PID in done.stderr
    assert [document["pid"] for document in json.loads(done.stdout)] == [sleeper.pid]


def test_a_statement_is_printed_for_each_process() -> None:
    with sleeping_process() as first, sleeping_process() as second:
        done = ramledger("explain", str(first.pid), "--top", "5", str(second.pid))
    assert (done.returncode, done.stderr) == (0, "")
    assert str(first.pid) in done.stdout
    assert str(second.pid) in done.stdout
    assert "unexplained" in done.stdout


def sleeping_process() -> subprocess.Popen[bytes]:
    # it ends by itself when its stdin closes, which leaving the `with` block does
    return subprocess.Popen(
        [sys.executable, "-I", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )


def test_a_full_disk_is_reported_without_a_traceback() -> None:
    with open("/dev/full", "w") as full:
        done = ramledger("--help", stdout=full)
    assert done.returncode == 1
    assert done.stderr == "ramledger: [Errno 28] No space left on device\n"


@pytest.mark.parametrize(
    "arguments", [["--help"], ["explain", str(os.getpid()), "--json"]], ids=["help", "json"]
)
def test_a_reader_that_went_away_is_met_with_silence(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = ramledger(*arguments, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["explain", NO_SUCH_PID], 1),
        (["explain"], 2),
        (["run", "--out", "r.ledger.jsonl", "--", "sh", "-c", "exit 5"], 5),
        (["run", "--out", "r.ledger.jsonl", "--quiet", "--", "true"], 0),
    ],
)
def test_complaints_that_nobody_can_take_change_no_exit_code(
    arguments: list[str], code: int, tmp_path: Path
) -> None:
    # without a buffer there would be nothing left to say at exit
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [str(COMMAND), *arguments], stdout=subprocess.DEVNULL, stderr=full, cwd=tmp_path,
            timeout=100, env=environment,
        )  # fmt: skip
    assert done.returncode == code


def test_closed_standard_streams_do_no_harm() -> None:
    done = subprocess.run(f"'{COMMAND}' --help >&- 2>&- <&-", shell=True, timeout=100)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (RamledgerError("bad\nnews", hint="do this"), 1, "ramledger: bad news\n  hint: do this\n"),
        (ConfigError("no such option"), 1, "ramledger: no such option\n"),
        (KeyboardInterrupt(), 130, ""),
        (
            OSError(13, "Permission denied", "x"),
            1,
            "ramledger: [Errno 13] Permission denied: 'x'\n",
        ),
        (MemoryError(), 1, "ramledger: out of memory\n"),
    ],
    ids=["with hint", "without hint", "interrupt", "system", "memory"],
)
def test_what_may_fail_becomes_a_line_and_a_code(
    raised: BaseException, code: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise raised

    assert exit_code_of(fail) == code
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(said) if said else shown.err == ""


def test_a_defect_is_not_hidden() -> None:
    def fail() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        exit_code_of(fail)


def test_control_c_is_quiet() -> None:
    program = (
        "import sys, time; from ramledger.cli.main import exit_code_of\n"
        "print('ready', flush=True)\n"
        "sys.exit(exit_code_of(lambda: time.sleep(60)))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        _, shown = running.communicate(timeout=100)
    assert (running.returncode, shown) == (130, "")
