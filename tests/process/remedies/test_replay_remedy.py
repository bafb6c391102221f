"""`--apply replay`: the same parameters, bit for bit, from a smaller buffer."""

import importlib.util
import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import PROGRAMS
from tests.support.recorded_programs import COMMAND

pytest.importorskip("stable_baselines3")
from stable_baselines3.common.save_util import load_from_pkl, save_to_pkl

PROGRAM = [sys.executable, str(PROGRAMS / "remedied.py")]


APPLIED = {
    "plain": "AppliedReplayBuffer",
    "two": "AppliedReplayBuffer",
    "optimized-twice": "AppliedReplayBuffer",
    "dict": "AppliedDictReplayBuffer",
    "dict-stack": "AppliedDictReplayBuffer",
    "n-step": "AppliedNStepReplayBuffer",
    "n-step-class": "AppliedNStepReplayBuffer",
    "normalized": "AppliedNStepReplayBuffer",
    "pixels": "AppliedReplayBuffer",
    "her": "AppliedHerReplayBuffer",
    "her-final": "AppliedHerReplayBuffer",
    "her-two": "AppliedHerReplayBuffer",
    "her-continuous": "AppliedHerReplayBuffer",
}
OF_CONTRIB = dict.fromkeys(("QRDQN", "TQC"), "AppliedReplayBuffer")
LEFT = {
    "subclass": "OwnBuffer is a buffer class of its own: it stays as it is",
    "ledger": "LedgerReplayBuffer is already ours: it stays as it is",
    "odd-name": "DictReplayBuffer stays as it is: ConfigError: a field cannot be called",
}
SAVED = ("plain", "her", "pixels")
Results = dict[str, list[str]]


def results(text: str, kinds: str) -> Results:
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith("RESULT")]
    return dict(zip(kinds.split(","), lines, strict=True))


def plain_results(kinds: str, *places: str) -> Results:
    done = subprocess.run([*PROGRAM, kinds, *places], capture_output=True, text=True, check=True)
    return results(done.stdout, kinds)


def plainly(kind: str) -> list[str]:
    return plain_results(kind)[kind]


def remedied_results(
    folder: Path, kinds: str, *places: str, apply: str = "replay"
) -> tuple[Results, dict[str, Any]]:
    words = [COMMAND, "run", "--json", "--quiet", "--apply", apply]
    words += ["--out", str(folder / "run.ledger.jsonl"), "--force", "--", *PROGRAM, kinds, *places]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return results(done.stderr, kinds), json.loads(done.stdout)["remedies"]


def remedied(folder: Path, kind: str, apply: str = "replay") -> tuple[list[str], dict[str, Any]]:
    found, remedies = remedied_results(folder, kind, apply=apply)
    return found[kind], remedies


class Trained:
    """All kinds, trained with and without the remedy; buffers are saved."""

    def __init__(self, folder: Path) -> None:
        (folder / "theirs").mkdir()
        (folder / "ours").mkdir()
        self.folder = folder
        kinds = [*APPLIED, *LEFT]
        if importlib.util.find_spec("sb3_contrib"):
            kinds += OF_CONTRIB
        several = ",".join(kind for kind in kinds if kind not in SAVED)
        saved = ",".join(SAVED)
        self.plain = plain_results(several)
        self.plain |= plain_results(saved, f"save={folder}/theirs")
        self.found, self.remedies = remedied_results(folder, several)
        found, remedies = remedied_results(folder, saved, f"save={folder}/ours")
        self.found |= found
        self.remedies["applied"] += remedies["applied"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(tmp_path_factory.mktemp("trained"))


@pytest.mark.parametrize(("kind", "name"), [*APPLIED.items(), *OF_CONTRIB.items()])
def test_the_same_parameters(trained: Trained, kind: str, name: str) -> None:
    if kind in OF_CONTRIB:
        pytest.importorskip("sb3_contrib")
    numbers, usual, size = trained.plain[kind]
    assert trained.found[kind] == [numbers, name, size]
    assert usual == name.removeprefix("Applied")


def test_what_was_done_is_said(trained: Trained) -> None:
    said = [one["text"] for one in trained.remedies["applied"]]
    for text in ("each observation is stored once: about", "each frame is stored once, stacks of 4",
                 "each frame is stored once, stacks of 3"):  # fmt: skip
        assert any(one.startswith(text) for one in said), text


@pytest.mark.parametrize("kind", LEFT)
def test_what_stays_as_it_is(trained: Trained, kind: str) -> None:
    assert trained.found[kind] == trained.plain[kind]
    assert sum(left["text"].startswith(LEFT[kind]) for left in trained.remedies["left"]) == 1
    assert len(trained.remedies["left"]) == len(LEFT)


def test_compressed_frames_are_the_same_frames(tmp_path: Path, trained: Trained) -> None:
    pytest.importorskip("lz4")
    found, remedies = remedied(tmp_path, "pixels", apply="replay=lz4")
    assert found == trained.found["pixels"]
    assert "compressed with lz4" in remedies["applied"][0]["text"]


def test_an_error_of_stable_baselines3_is_the_same(tmp_path: Path) -> None:
    """`optimize_memory_usage=True` while timeouts are handled."""
    plain = subprocess.run([*PROGRAM, "optimized-timeouts"], capture_output=True, text=True)
    words = [COMMAND, "run", "--quiet", "--apply", "replay", "--out", str(tmp_path / "x"), "--"]
    done = subprocess.run([*words, *PROGRAM, "optimized-timeouts"], capture_output=True, text=True)
    (said,) = (line for line in plain.stderr.splitlines() if line.startswith("ValueError: "))
    assert said in done.stderr.splitlines()
    assert done.returncode == plain.returncode == 1


def test_without_the_package_for_compression_frames_are_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: Trained
) -> None:
    (tmp_path / "lz4").mkdir()
    (tmp_path / "lz4" / "__init__.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found, remedies = remedied(tmp_path, "pixels", apply="replay=lz4")
    assert found == trained.found["pixels"]
    (left,) = remedies["left"]
    said = "frames are not compressed: lz4 is not installed (pip install 'ramledger[compress]')"
    assert left["text"] == said
    (applied,) = remedies["applied"]
    assert "stacks of 4" in applied["text"]
    assert "compressed" not in applied["text"]


def test_buffers_are_saved_and_loaded_with_and_without(tmp_path: Path, trained: Trained) -> None:
    kinds, theirs, ours = (
        ",".join(SAVED),
        *(f"load={trained.folder}/{n}" for n in ("theirs", "ours")),
    )
    expected = plain_results(kinds, theirs)
    found = [plain_results(kinds, ours)]
    found += [remedied_results(tmp_path, kinds, place)[0] for place in (theirs, ours)]
    for kind in SAVED:
        assert {one[kind][0] for one in found} == {expected[kind][0]}
        # a loaded buffer is what was saved
        names = [one[kind][1] for one in found]
        assert names == [APPLIED[kind], expected[kind][1], APPLIED[kind]]


WITHOUT_RAMLEDGER = """
import sys
sys.path.append(sys.argv[1])  # installed packages, but none that a .pth file names
from stable_baselines3.common.save_util import load_from_pkl
buffer = load_from_pkl(sys.argv[2])
print(type(buffer).__module__, type(buffer).__name__, buffer.size(), "ramledger" in sys.modules)
"""


def test_a_process_without_ramledger(tmp_path: Path, trained: Trained) -> None:
    """It cannot load ours, and what `as_baselines` gives it can."""
    ours, theirs = trained.folder / "ours" / "her.pkl", tmp_path / "her.pkl"
    save_to_pkl(theirs, load_from_pkl(ours).as_baselines())
    shutil.copy(trained.folder / "theirs" / "her.zip", tmp_path)
    words = [sys.executable, "-S", "-c", WITHOUT_RAMLEDGER, sysconfig.get_path("purelib")]
    done = subprocess.run([*words, ours], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'ramledger'"
    done = subprocess.run([*words, theirs], capture_output=True, text=True, cwd=tmp_path)
    module = "stable_baselines3.her.her_replay_buffer"
    assert done.stdout.split() == [module, "HerReplayBuffer", "400", "False"]
    usual = f"load={trained.folder}/theirs"
    assert plain_results("her", f"load={tmp_path}") == plain_results("her", usual)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing", "there is no remedy 'nothing'"),
        ("replay=zip", "replay has no option 'zip'"),
        ("", "names no remedy"),
    ],
)
def test_what_does_not_exist_is_said(text: str, said: str) -> None:
    words = [COMMAND, "run", "--apply", text, "--", *PROGRAM, "plain"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert said in done.stderr
