"""`ramledger run` as a user runs it: the command stays itself, and a recording is left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ramledger.event_parts import RunSettings
from ramledger.events import PhaseEvent, PressureEvent, ProcessEvent, RunEndEvent, SampleEvent
from ramledger.ledger import Limit
from ramledger.recorder.recording_name import script_name
from ramledger.recording import Recording
from tests.support.places import PROGRAMS
from tests.support.terminals import Terminal, without_escapes
from tests.support.waiting import wait_until

COMMAND = str(Path(sys.executable).with_name("ramledger"))
GENERATIONS = [sys.executable, str(PROGRAMS / "run_generations.py")]
SIGNALS = [sys.executable, str(PROGRAMS / "run_signals.py")]
GROW = [sys.executable, str(PROGRAMS / "run_grow.py")]
MIB = 1 << 20


def run(*arguments: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": 60, **options}
    return subprocess.run([COMMAND, "run", *arguments], cwd=cwd, **options)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def recording_in(folder: Path) -> Recording:
    (path,) = folder.glob("*.ledger.jsonl")
    return Recording.read(str(path))


# ---- the command stays itself ---------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 77])
def test_the_exit_code_is_the_commands(code: int, tmp_path: Path) -> None:
    done = run("--", *python(f"raise SystemExit({code})"), cwd=tmp_path)
    assert done.returncode == code
    recording = recording_in(tmp_path)
    assert recording.is_complete
    assert [(e.exit_code, e.signal) for e in recording.of_type(RunEndEvent)] == [(code, None)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGABRT])
def test_the_death_is_the_commands(number: signal.Signals, tmp_path: Path) -> None:
    done = run("--", *python(f"import os; os.kill(os.getpid(), {int(number)})"), cwd=tmp_path)
    assert done.returncode == -number
    recording = recording_in(tmp_path)
    assert [(e.exit_code, e.signal) for e in recording.of_type(RunEndEvent)] == [(None, number)]
    assert not any(e.killed_by_kernel for e in recording.of_type(RunEndEvent))
    assert f"was ended by {number.name}" in done.stderr.decode()


def test_output_is_untouched_and_ours_is_on_stderr(tmp_path: Path) -> None:
    options = ["--phase", "evaluate", "--phase", "train"]
    options += ["--expect", "Trainer=1", "--expect", "TradingEnvironment=2"]
    alone = subprocess.run([*GENERATIONS, "5"], capture_output=True)
    done = run(*options, "--", *GENERATIONS, "5", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, alone.stdout)
    lines = done.stderr.decode().splitlines()
    assert any(line.startswith("ramledger: iteration ") for line in lines)
    text = "\n".join(lines)
    for part in (
        "TradingEnvironment instead of 2", "memory at the largest snapshot", "growth from",
        "phases", "evaluate",
    ):  # fmt: skip
        assert part in text, part
    assert lines[-2].startswith("ramledger: recording: run_generations-")
    name = lines[-2].split()[2]
    assert Path(tmp_path, name).is_file()
    assert lines[-1] == f"ramledger: next: ramledger report {name}"


def test_the_recording_is_as_documented(tmp_path: Path) -> None:
    limit = ["--limit", "2GiB", "--every", "0.2", "--budget", "0.05"]
    run(*limit, "--phase", "evaluate", "--", *GENERATIONS, "4", cwd=tmp_path)
    recording = recording_in(tmp_path)
    header = recording.header
    assert header.schema == "ramledger.recording/2"
    assert header.command == (*GENERATIONS, "4")
    assert header.directory == str(tmp_path)
    assert header.limit == Limit(2 << 30, "--limit")
    assert header.settings == RunSettings(every_seconds=0.2, budget=0.05)
    assert header.started_at is not None
    assert abs(header.started_at - time.time()) < 120
    assert header.host is not None
    assert header.host.cores and header.host.ram_bytes and header.host.system and header.host.python
    kinds = {event.kind for event in recording.events}
    assert {"process", "sample", "phase", "generation", "snapshot", "run-end"} <= kinds
    assert {event.name for event in recording.of_type(PhaseEvent)} == {"evaluate"}
    times = [event.t for event in recording.of_type(SampleEvent)]
    assert len(times) >= 8  # 2.4 s and more, five a second


def test_arguments_after_the_dashes_are_the_commands(tmp_path: Path) -> None:
    words = ["--out", "x", "--json", "-h", "--", "--quiet", "", "a b"]
    done = run("--quiet", "--", *python("import sys; print(sys.argv[1:])"), *words, cwd=tmp_path)
    assert done.stdout.decode().strip() == repr(words)


def test_input_reaches_the_command(tmp_path: Path) -> None:
    done = run("--", "tr", "a-z", "A-Z", cwd=tmp_path, stdin=None, input=b"hello\n")
    assert done.stdout == b"HELLO\n"


def test_a_script_with_a_syntax_error_says_so_itself(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def broken(:\n")
    done = run("--", sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == 1
    text = done.stderr.decode()
    assert "SyntaxError" in text
    assert text.count("Traceback") == 0
    assert "with exit code 1" in text
    assert "statement at the peak" not in text
    assert recording_in(tmp_path).path.endswith(".ledger.jsonl")


def test_a_shell_script_that_starts_python_has_its_agent(tmp_path: Path) -> None:
    (tmp_path / "go.sh").write_text(f"{sys.executable} -c 'import time; time.sleep(1.2)'; exit 5\n")
    done = run("--", "sh", "go.sh", cwd=tmp_path)
    assert done.returncode == 5
    recording = recording_in(tmp_path)
    agents = {event.pid for event in recording.of_type(ProcessEvent) if event.has_agent}
    root = next(recording.of_type(ProcessEvent)).pid
    assert len(agents) == 1
    assert root not in agents
    assert os.path.basename(recording.path).startswith("go-")


def test_a_handler_of_the_training_for_sigterm_runs(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [COMMAND, "run", "--quiet", "--", *SIGNALS], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.stdout.readline() == "got SIGTERM\n"
    process.communicate(timeout=100)
    assert process.returncode == 7
    assert [event.exit_code for event in recording_in(tmp_path).of_type(RunEndEvent)] == [7]


def test_a_training_outlives_a_killed_recorder(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    code = (
        "import time\n"
        "def step(n):\n"
        f"    open({str(marks)!r}, 'a').write(f'{{n}}\\n')\n"
        "    print(n, flush=True); time.sleep(0.05)\n"
        "for n in range(60):\n"
        "    step(n)\n"
    )
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(
            [COMMAND, "run", "--", *python(code)], stdout=out, stderr=out, cwd=tmp_path
        )
        wait_until(lambda: marks.exists() and len(marks.read_text().split()) >= 10)
        process.kill()
        process.wait(100)
    wait_until(lambda: marks.read_text().split() == [str(n) for n in range(60)])
    wait_until(lambda: "\n59\n" in (tmp_path / "out").read_text())
    recording = recording_in(tmp_path)
    assert not recording.is_complete
    assert list(recording.of_type(SampleEvent))


def test_a_command_that_detaches_is_noted(tmp_path: Path) -> None:
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid(); os.closerange(0, 3); time.sleep(600); os._exit(0)\n"
        "time.sleep(1.5)\n"
    )
    done = run("--", *python(code), cwd=tmp_path)
    assert done.returncode == 0
    text = done.stderr.decode()
    assert "still running when the command ended: pid " in text
    os.kill(int(text.partition("ended: pid ")[2].split()[0]), signal.SIGKILL)


def test_a_command_that_closes_everything_is_waited_for(tmp_path: Path) -> None:
    code = "import os, time; os.closerange(0, 512); time.sleep(1); os._exit(6)"
    assert run("--", *python(code), cwd=tmp_path).returncode == 6
    assert recording_in(tmp_path).is_complete


def test_it_runs_with_all_streams_closed(tmp_path: Path) -> None:
    words = [COMMAND, "run", "--out", "x.ledger.jsonl", "--", sys.executable, "-c", "exit(4)"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "-", *words], cwd=tmp_path, timeout=100
    )
    assert done.returncode == 4
    assert recording_in(tmp_path).is_complete


# ---- what may be asked of it ----------------------------------------------------------------


def test_quiet_says_where_the_recording_is_and_nothing_else(tmp_path: Path) -> None:
    done = run("--quiet", "--phase", "evaluate", "--", *GENERATIONS, "3", cwd=tmp_path)
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("ramledger: recording: run_generations-")


def test_json_is_one_document_on_stdout(tmp_path: Path) -> None:
    done = run("--json", "--phase", "evaluate", "--", *GENERATIONS, "4", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert document["schema"] == "ramledger.run/1"
    assert document["exit_code"] == 0
    assert Path(tmp_path, document["recording"]).is_file()
    assert [phase["name"] for phase in document["phases"]] == ["evaluate"]
    accounts = document["statement"]["accounts"]
    booked = sum(account["resident_bytes"] for account in accounts)
    statement = document["statement"]
    assert booked + statement["unexplained_bytes"] == statement["rss_bytes"] > 0
    assert b"generation 0 is done" in done.stderr
    assert b"statement at the peak" not in done.stderr


def test_the_limit_stops_a_program_that_grows(tmp_path: Path) -> None:
    done = run("--limit", "120MiB", "--on-limit", "stop", "--", *GROW, cwd=tmp_path)
    assert done.returncode == -signal.SIGTERM
    text = done.stderr.decode()
    assert "stopping early: " in text and "of 120.0 MiB used" in text
    assert "was stopped early" in text
    (event,) = recording_in(tmp_path).of_type(PressureEvent)
    assert event.limit_bytes == 120 * MIB
    assert event.usage_bytes < 130 * MIB


def test_two_runs_in_one_second_have_two_recordings(tmp_path: Path) -> None:
    for _ in range(3):
        assert run("--quiet", "--", "true", cwd=tmp_path).returncode == 0
    assert len(list(tmp_path.glob("true-*.ledger.jsonl"))) == 3


def test_a_recording_is_overwritten_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "ran").unlink(missing_ok=True)
    refused = run("--out", "mine", "--", "touch", "ran", cwd=tmp_path)
    assert refused.returncode == 1
    assert (tmp_path / "mine").read_text() == "precious"
    assert not (tmp_path / "ran").exists()
    line, hint = refused.stderr.decode().splitlines()
    assert "mine exists already" in line
    assert "--force" in hint
    assert run("--out", "mine", "--force", "--", "touch", "ran", cwd=tmp_path).returncode == 0
    assert Recording.read(str(tmp_path / "mine")).is_complete


def test_a_place_that_cannot_be_written_is_one_line_and_nothing_runs(tmp_path: Path) -> None:
    done = run("--out", "no/such/folder/x", "--", "touch", "ran", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.decode().startswith("ramledger: cannot write no/such/folder/x")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["no-such-command"], 127, "command not found: no-such-command"),
        (["./plain.py"], 126, "did you mean `python ./plain.py`?"),
        (["."], 126, "it is a directory"),
    ],
)
def test_a_command_that_cannot_start_is_one_line_and_leaves_nothing(
    command: list[str], code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "plain.py").write_text("")
    done = run("--", *command, cwd=tmp_path)
    (line,) = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout) == (code, b"")
    assert said in line
    assert [path.name for path in tmp_path.iterdir()] == ["plain.py"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "COMMAND"),
        (["--limit", "many", "--", "true"], "many"),
        (["--expect", "Env", "--", "true"], "Env"),
        (["--expect", "Env=-1", "--", "true"], "Env=-1"),
        (["--on-limit", "explode", "--", "true"], "explode"),
        (["--budget", "2", "--", "true"], "--budget"),
        (["--every", "0", "--", "true"], "--every"),
        (["--fail-on", "rain", "--", "true"], "rain"),
        (["--bogus", "--", "true"], "--bogus"),
    ],
)
def test_wrong_usage_is_code_2_and_nothing_runs(
    arguments: list[str], named: str, tmp_path: Path
) -> None:
    done = run(*arguments, cwd=tmp_path)
    line, hint = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout) == (2, b"")
    assert named in line
    assert hint == "  hint: ramledger run --help"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("words", "code"), [(["12"], 3), (["12", "clean"], 0)])
def test_fail_on_leak_turns_a_leak_into_code_3(words: list[str], code: int, tmp_path: Path) -> None:
    phases = ["--phase", "evaluate", "--phase", "train"]
    done = run("--json", "--fail-on", "leak", *phases, "--", *GENERATIONS, *words, cwd=tmp_path)
    diagnosis = json.loads(done.stdout)["diagnosis"]
    assert (diagnosis["verdict"] == "leak") == (code == 3)
    assert done.returncode == code


def test_help_names_every_option_and_loads_nothing_else(tmp_path: Path) -> None:
    text = run("--help", cwd=tmp_path).stdout.decode()
    for option in (
        "--out", "--every", "--phase", "--expect", "--limit", "--on-limit", "--budget",
        "--fail-on", "--plain", "--quiet", "--force", "--json", "COMMAND",
    ):  # fmt: skip
        assert option in text, option


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py"], "train"),
        (["/usr/bin/python3.12", "-u", "-X", "dev", "-W", "error", "a/b/train.py", "x"], "train"),
        (["python", "-m", "pkg.train", "--x"], "pkg.train"),
        (["python", "-c", "print()"], "python"),
        (["python"], "python"),
        (["bash", "scripts/go.sh"], "go"),
        (["sb3-train", "--algo", "ppo"], "sb3-train"),
        (["./my train!.py"], "my_train_"),
    ],
)
def test_the_recording_is_named_after_the_script(command: list[str], name: str) -> None:
    assert script_name(command) == name


# ---- at a terminal --------------------------------------------------------------------------


def test_the_live_view_is_pinned_and_the_terminal_is_given_back(tmp_path: Path) -> None:
    arguments = ["run", "--limit", "1GiB", "--phase", "evaluate", "--", *GENERATIONS, "6"]
    with Terminal([COMMAND, *arguments], rows=30, columns=80, cwd=tmp_path) as terminal:
        terminal.expect("generation 0 is done")
        before = terminal.attributes()
        assert terminal.wait(60) == 0
        assert terminal.attributes() == before
    shown = terminal.shown
    plain = without_escapes(shown)
    assert [n for n in range(6) if f"generation {n} is done" in plain] == list(range(6))
    assert "ramledger · python" in plain
    assert "% of the limit, 1.0 GiB (--limit)" in plain
    assert "variables/" in plain
    last = shown.rindex("\x1b[r")  # the whole screen scrolls again
    assert "memory at the largest snapshot" in without_escapes(shown[last:])
    assert "\x1b[1;" not in shown[last:].partition("recording:")[0].replace("\x1b[1;3", "")


def test_ctrl_c_ends_the_command_and_the_summary_follows(tmp_path: Path) -> None:
    with Terminal([COMMAND, "run", "--", *GENERATIONS, "50"], cwd=tmp_path) as terminal:
        terminal.expect("generation 2 is done")
        terminal.type("\x03")
        assert terminal.wait(60) == -signal.SIGINT
    plain = without_escapes(terminal.shown)
    assert plain.count("KeyboardInterrupt") == 1  # the command's own
    assert "was ended by SIGINT" in plain
    assert recording_in(tmp_path).is_complete


def test_plain_and_dumb_terminals_get_lines(tmp_path: Path) -> None:
    arguments = ["run", "--phase", "evaluate", "--", *GENERATIONS, "3"]
    plain = ["run", "--plain", *arguments[1:]]
    for words, term in ((arguments, "dumb"), (plain, "xterm")):
        with Terminal([COMMAND, *words], environment={"TERM": term}, cwd=tmp_path) as terminal:
            terminal.expect("ramledger: iteration ")
        assert "\x1b[r" not in terminal.shown
        assert "\x1b7" not in terminal.shown
