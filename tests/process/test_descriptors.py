"""Programs that close and reuse our descriptors keep what is theirs, and we go on with our own."""

import json
import os
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ramledger.agent.launch_environment import environment_with_agent
from ramledger.attach.enter import ask_inside
from ramledger.descriptors import list_folder
from ramledger.errors import RamledgerError
from ramledger.events import Header, ProgramEndEvent, RunEndEvent, SampleEvent, SnapshotEvent
from ramledger.recorder.run_recorder import RunRecorder
from ramledger.recording import Recording, RecordingWriter
from tests.support.places import PROGRAMS

KINDS = ("file", "statm", "pair", "listener", "eventfd", "epoll")


def run_recorded(folder: Path, *command: str) -> tuple[list[str], Recording]:
    """What a program under a recorder says at its end, asked now and then, and the recording."""
    path = str(folder / "run.ledger.jsonl")
    recorder = RunRecorder(RecordingWriter(path, Header(command=command)))
    environment = environment_with_agent(
        os.environ, {"recorder": recorder.socket_path, "budget": 0.5}
    )
    with subprocess.Popen(
        [sys.executable, *command], env=environment, cwd=folder, stdout=-1, text=True
    ) as process:
        recorder.start(process.pid)
        while process.poll() is None:
            with suppress(RamledgerError):
                ask_inside(process.pid, {"verb": "ping"}, method="agent", timeout_seconds=5)
            time.sleep(0.1)
        assert process.stdout is not None
        text = process.stdout.read()
    recorder.finish(process.returncode, None)
    assert process.returncode == 0
    said: list[str] = json.loads(text)
    return said, Recording.read(path)


@pytest.mark.parametrize("how", ["same", "daemon", "thread"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_program_opens_at_our_numbers_is_its_own(
    kind: str, how: str, tmp_path: Path
) -> None:
    program = str(PROGRAMS / "closes_descriptors.py")
    said, recording = run_recorded(tmp_path, program, kind, how)
    assert said == []
    assert list(
        recording.of_type(ProgramEndEvent)
    )  # said at the very end, over a connection made anew


def recorded_inside(folder: Path, code: str) -> tuple[str, Recording]:
    """What a program says that records itself, and its recording."""
    script = folder / "train.py"
    script.write_text("import ramledger\nramledger.record('run.ledger.jsonl')\n" + code)
    done = subprocess.run(
        [sys.executable, str(script)], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, Recording.read(str(folder / "run.ledger.jsonl"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_that_records_itself_keeps_its_files_too(kind: str, tmp_path: Path) -> None:
    folder = str(PROGRAMS.parent.parent)
    code = (
        f"import sys, json; sys.path.insert(0, {folder!r})\n"
        "from tests.programs.closes_descriptors import main\n"
        f"print(json.dumps(main({kind!r}, 'same')))\n"
    )
    said, recording = recorded_inside(tmp_path, code)
    assert json.loads(said) == []
    assert recording.is_complete and not recording.notes
    [exited] = recording.of_type(ProgramEndEvent)
    assert [event for event in recording.of_type(SampleEvent) if event.t > exited.t - 1.0]


FORKS = """
import os, sys, time
for _ in range(3):
    time.sleep(0.3)
    if not os.fork():
        sys.exit(0)  # through all exit handlers
    os.wait()
time.sleep(0.5)
"""


def test_a_forked_child_that_ends_does_not_end_its_parents_recording(tmp_path: Path) -> None:
    _, recording = recorded_inside(tmp_path, FORKS)
    [end] = recording.of_type(RunEndEvent)
    assert end is recording.events[-1]
    assert recording.is_complete


STREAMS = """
import json, os, time
wrong = tries = 0
end = time.monotonic() + 3.0
while time.monotonic() < end:
    for number in (0, 1, 2):
        kept = os.dup(number)
        os.close(number)
        sum(range(2000))
        opened = os.open("/dev/null", os.O_RDWR)
        tries += 1
        wrong += opened != number
        os.dup2(kept, number)
        os.close(kept)
        if opened != number:
            os.close(opened)
print(json.dumps([f"{wrong} of {tries}"] if wrong else []), flush=True)
"""


def test_a_program_gets_the_standard_streams_that_it_closed_back(tmp_path: Path) -> None:
    (tmp_path / "streams.py").write_text(STREAMS)
    said, _ = run_recorded(tmp_path, "streams.py")
    assert said == []


FEW = """
import json, os, resource, time
time.sleep(1.0)
numbers = [int(name) for name in os.listdir("/proc/self/fd")]
ours = sorted(number for number in numbers if os.path.lexists(f"/proc/self/fd/{number}"))
kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(24)]
print(json.dumps(ours), flush=True)
os._exit(0)
"""


def test_few_numbers_are_held_and_none_that_a_program_would_get_first(tmp_path: Path) -> None:
    (tmp_path / "few.py").write_text(FEW)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, hard))
    try:
        environment = environment_with_agent(os.environ, {"recorder": str(tmp_path / "none")})
        done = subprocess.run(
            [sys.executable, "few.py"], cwd=tmp_path, env=environment, capture_output=True
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    held = [number for number in json.loads(done.stdout) if number > 2]
    assert 1 <= len(held) <= 4
    assert min(held) >= 24


PIPES = """
import signal, socket, sys
from ramledger.agent.event_link import EventLink
from ramledger.events import NoteEvent
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
server = socket.socket(socket.AF_UNIX)
server.bind("recorder.sock")
server.listen()
link = EventLink("recorder.sock")
link.put(NoteEvent(t=0.0, text="first"))
link.flush()
server.accept()[0].close()
server.close()
link.put(NoteEvent(t=0.0, text="second"))
link.flush()
print(link.is_broken)
"""


def test_a_recorder_that_is_gone_does_not_end_a_program_by_sigpipe(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PIPES], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stdout) == (0, "True\n")


HOLDS = """
import os, time
time.sleep(0.5)
child = os.fork()
if not child:
    found = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
    names = [os.readlink(path) for path in found if os.path.lexists(path)]
    print(sum("ledger.jsonl" in name or f"/{os.getppid()}/" in name for name in names), flush=True)
    os._exit(0)
os.wait()
"""


def test_a_forked_child_holds_nothing_of_its_parents_recorder(tmp_path: Path) -> None:
    said, _ = recorded_inside(tmp_path, HOLDS)
    assert said == "0\n"


KEEPS = """
import os, sys
from ramledger.integrations.training_session import TrainingSession
recording = TrainingSession()
recording.begin(print)
if not os.fork():
    sys.exit(0)
os.wait()
print(os.path.exists(recording.path), recording.path)
"""


def test_a_forked_child_that_ends_leaves_a_callbacks_recording(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KEEPS], capture_output=True, text=True, timeout=100
    )
    is_there, path = done.stdout.split()
    assert is_there == "True" and not Path(path).exists()


ASKED = """
import os, sys
print("ready", flush=True)
sys.stdin.readline()
os.closerange(3, 4096)
kept = [os.dup2(0, number) for number in (3, 4, 5, 768, 769, 770)]
print("closed", flush=True)
sys.stdin.readline()
"""


def test_an_agent_that_only_answers_answers_again(tmp_path: Path) -> None:
    ping = {"verb": "ping"}
    with subprocess.Popen(
        [sys.executable, "-c", ASKED],
        env=environment_with_agent(os.environ), stdin=-1, stdout=-1, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        assert ask_inside(process.pid, ping, method="agent")["pid"] == process.pid
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "closed\n"
        for _ in range(3):
            assert ask_inside(process.pid, ping, method="agent")["pid"] == process.pid
        process.stdin.close()
    assert process.returncode == 0


def test_folders_are_listed_as_os_does(tmp_path: Path) -> None:
    names = [f"a{number:03}" * 20 for number in range(500)] + ["ä", "\udcff"]
    for name in names:
        (tmp_path / name).touch()
    assert sorted(list_folder(str(tmp_path))) == sorted(names)
    assert sorted(list_folder("/proc/self/task")) == sorted(os.listdir("/proc/self/task"))
    with pytest.raises(FileNotFoundError):
        list_folder(str(tmp_path / "none"))
    with pytest.raises(NotADirectoryError):
        list_folder(str(tmp_path / names[0]))


IMPORTS = """
import json, sys, time
before = set(sys.modules)
kept, end = [], time.monotonic() + 3.0
while time.monotonic() < end:
    kept.append([bytes(1000)])
    time.sleep(0.001)
print(json.dumps(sorted(set(sys.modules) - before)), flush=True)
"""


def test_nothing_is_imported_in_the_middle_of_a_program(tmp_path: Path) -> None:
    """An import opens files at the lowest free numbers, for as long as it takes to read them."""
    (tmp_path / "imports.py").write_text(IMPORTS)
    said, recording = run_recorded(tmp_path, "imports.py")
    assert list(recording.of_type(SnapshotEvent))
    assert said == []
