"""`make demo`: one story, from a config that does not fit to a leak that is found and fixed.

Runs the real command on small real trainings, in a folder of its own. `--open` opens the page.
"""

import argparse
import difflib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from ramledger.cli.quickstart import quickstart

HERE = Path(__file__).parent
COMMAND = Path(sys.executable).with_name("ramledger")
FOLDER = "ramledger-demo"
PROBLEM_FOUND = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, stop)
    say("ramledger: where the RAM of a reinforcement-learning run goes\n")
    prepare()
    title("1. Before: will it fit? DQN on Atari with a buffer of a million, on 32 GiB")
    ramledger("plan", "dqn_atari.toml", "--ram", "32GiB", expected=PROBLEM_FOUND)

    title("2. During: a population learns to balance a pole, and needs more in every iteration")
    ramledger("run", "--force", "--out", "before.ledger.jsonl", "--", sys.executable, "train.py")

    title("3. The page of that run, one file to read and to send")
    ramledger("report", "before.ledger.jsonl", *(["--open"] if arguments.open else []))

    title("4. The fix, one line")
    show_difference("train.py", "train_fixed.py")
    ramledger(
        "run", "--quiet", "--force", "--out", "after.ledger.jsonl", "--", sys.executable,
        "train_fixed.py",
    )  # fmt: skip
    ramledger("diagnose", "after.ledger.jsonl", "--compare", "before.ledger.jsonl")

    title("5. Less memory without a change to the script: DQN of stable-baselines3 on images")
    ramledger(
        "run", "--quiet", "--force", "--out", "plain.ledger.jsonl", "--", sys.executable,
        "dqn_images.py",
    )  # fmt: skip
    ramledger(
        "run", "--force", "--apply", "replay", "--against", "plain.ledger.jsonl", "--out",
        "applied.ledger.jsonl", "--", sys.executable, "dqn_images.py",
    )  # fmt: skip
    say(f"\nAll of it is in {FOLDER}/. Next: ramledger run -- python YOUR_TRAINING.py")


def prepare() -> None:
    """A folder with the files of `ramledger quickstart`, and one training more."""
    say(f"$ ramledger quickstart {FOLDER}")
    quickstart(FOLDER, force=True)
    shutil.copy(HERE / "dqn_images.py", FOLDER)
    os.chdir(FOLDER)


def stop(*_: object) -> None:
    """On Ctrl-C: the training has got it, too, and ends by itself."""
    print("\ninterrupted", file=sys.stderr, flush=True)
    raise SystemExit(130)


def ramledger(*arguments: str, expected: int = 0) -> None:
    shown = " ".join(arguments).replace(sys.executable, "python").replace(" --force", "")
    say(f"$ ramledger {shown}\n")
    done = subprocess.run([COMMAND, *arguments], check=False)
    if done.returncode != expected:
        raise SystemExit(f"ramledger ended with code {done.returncode}")


def show_difference(before: str, after: str) -> None:
    old, new = (Path(one).read_text(encoding="utf-8").splitlines() for one in (before, after))
    for line in difflib.unified_diff(old, new, before, after, n=0, lineterm=""):
        if line[:1] in "+-" and "import" not in line and '"""' not in line:
            say(f"    {line}")
    say("")


def title(text: str) -> None:
    say(f"\n== {text} ==\n")


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
