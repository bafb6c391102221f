"""`ramledger.apply(…)` in a script, and the same as an option of callbacks and of `record`."""

import subprocess
import sys
from pathlib import Path

import pytest

import ramledger
from ramledger.errors import ConfigError
from ramledger.events import RemedyEvent
from ramledger.recording import Recording
from tests.support.recorded_programs import COMMAND

pytest.importorskip("stable_baselines3")
EXISTS = "replay: a buffer exists already and stays as it is: ramledger.apply('replay') at the top"

TRAIN = """
import sys
{first}
import gymnasium
from stable_baselines3 import DQN
{second}
model = DQN("MlpPolicy", "CartPole-v1", buffer_size=5_000, learning_starts=100, device="cpu")
callback = None
{third}
model.learn(400, callback=callback)
print("RESULT", type(model.replay_buffer).__name__)
"""
CALLBACK = (
    "from ramledger.integrations.stable_baselines import MemoryCallback\n"
    "callback = MemoryCallback(apply='replay', recording='callback.ledger.jsonl')"
)


def train(folder: Path, *under: str, **lines: str) -> tuple[str, str]:
    """(class of the buffer, all that was printed)."""
    code = TRAIN.format(**{"first": "", "second": "", "third": ""} | lines)
    (folder / "train.py").write_text(code)
    words = [*under, sys.executable, "train.py"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    text = done.stdout + done.stderr
    return text.partition("RESULT ")[2].split()[0], text


def remedies_in(path: Path) -> list[RemedyEvent]:
    """What remedies said that they did, or did not."""
    return [event for event in Recording.read(str(path)).of_type(RemedyEvent) if event.text]


@pytest.mark.parametrize("when", ["first", "second"])
def test_before_the_model_is_made(tmp_path: Path, when: str) -> None:
    found, text = train(tmp_path, **{when: "import ramledger; ramledger.apply('replay')"})
    assert found == "AppliedReplayBuffer"
    assert "ramledger:" not in text


def test_after_the_model_is_made_it_says_how_to_be_earlier(tmp_path: Path) -> None:
    late = "import ramledger; ramledger.apply('replay'); ramledger.apply('replay')"
    found, text = train(tmp_path, third=late)
    assert found == "ReplayBuffer"
    assert text.count(f"ramledger: {EXISTS}") == 1


def test_a_callback_applies_what_it_still_can(tmp_path: Path) -> None:
    late, text = train(tmp_path, third=CALLBACK)
    assert (late, text.count(f"ramledger: {EXISTS}")) == ("ReplayBuffer", 1)
    (event,) = remedies_in(tmp_path / "callback.ledger.jsonl")
    assert (event.name, event.is_applied) == ("replay", False)
    (tmp_path / "callback.ledger.jsonl").unlink()
    early, text = train(tmp_path, second=CALLBACK + "\nkept = callback", third="callback = kept")
    assert (early, EXISTS in text) == ("AppliedReplayBuffer", False)
    # said before the recording of the callback began
    (event,) = remedies_in(tmp_path / "callback.ledger.jsonl")
    assert event.is_applied and event.saves_bytes > 0


def test_record_takes_the_same_names(tmp_path: Path) -> None:
    line = "import ramledger; ramledger.record('own.ledger.jsonl', apply='replay')"
    found, _ = train(tmp_path, first=line)
    assert found == "AppliedReplayBuffer"
    assert [event.is_applied for event in remedies_in(tmp_path / "own.ledger.jsonl")] == [True]


def test_under_run_apply_it_is_in_force_already(tmp_path: Path) -> None:
    run = (COMMAND, "run", "--quiet", "--out", "run.ledger.jsonl", "--apply", "replay", "--")
    found, _ = train(tmp_path, *run, second="import ramledger; ramledger.apply('replay')")
    assert found == "AppliedReplayBuffer"
    assert len(remedies_in(tmp_path / "run.ledger.jsonl")) == 1


def test_large_blocks_go_back_without_a_variable() -> None:
    code = (
        "import ctypes\n"
        "import ramledger\n"
        "from ramledger.process_session import ProcessSession\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.malloc.restype = ctypes.c_void_p; libc.malloc.argtypes = [ctypes.c_size_t]\n"
        "libc.free.argtypes = [ctypes.c_void_p]\n"
        "session = ProcessSession()\n"
        "def kept_bytes():\n"
        "    libc.free(libc.malloc(24 << 20))  # lets glibc raise its threshold to 24 MiB\n"
        "    blocks = [libc.malloc(2 << 20) for _ in range(20)]\n"
        "    for block in blocks: ctypes.memset(block, 1, 2 << 20)\n"
        "    last = libc.malloc(4096); before = session.rss_bytes()\n"
        "    for block in blocks: libc.free(block)\n"
        "    return (40 << 20) - (before - session.rss_bytes())\n"
        "ramledger.apply('malloc') if APPLY else None\n"
        "print(kept_bytes())\n"
    )
    kept = [
        int(
            subprocess.run(
                [sys.executable, "-c", code.replace("APPLY", str(apply))],
                capture_output=True, text=True, check=True,
            ).stdout
        )
        for apply in (False, True)
    ]  # fmt: skip
    assert kept[0] > 30 << 20
    assert kept[1] < 4 << 20


def test_a_wrong_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="no remedy 'reply'"):
        ramledger.apply("reply")
