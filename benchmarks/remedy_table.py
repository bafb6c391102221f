"""What remedies save: five real trainings, each as it is and with its remedy, one after the other.

    python -m benchmarks.remedy_table [--write] [--cleanrl PYTHON DQN_ATARI.PY] [--only NAME …]

`--write` replaces the table in docs/remedies.md and README.md. CleanRL's script is not ours to
bring along: without it and a Python that has its requirements and ramledger, its row is left out.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ramledger.units import MIB

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- remedies measured -->", "<!-- /remedies measured -->"
MODULE = (sys.executable, "-m", "benchmarks.remedy_trainings")


@dataclass(frozen=True, slots=True)
class Training:
    """One row: what is run without the remedy, and what with it."""

    name: str
    text: str
    remedy: str
    without: tuple[str, ...]
    within: tuple[str, ...]  # the same command, or a changed one
    apply: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    peak_bytes: int
    steps_per_second: float
    parameters: str


def trainings(cleanrl: Sequence[str]) -> list[Training]:
    def ours(name: str) -> tuple[str, ...]:
        return (*MODULE, name)

    rows = [
        Training("dqn_pong", "SB3 DQN, Atari Pong, buffer of 100,000, full", "`--apply replay`",
                 ours("dqn_pong"), ours("dqn_pong"), "replay"),
        Training("dqn_pong_lz4", "the same", "`--apply replay=lz4`",
                 ours("dqn_pong"), ours("dqn_pong"), "replay=lz4"),
        Training("ppo_screens", "SB3 PPO, 2 × 8,192 steps, stacks of 4 pictures of 144×160×3",
                 "`--apply rollout`", ours("ppo_screens"), ours("ppo_screens"), "rollout"),
        Training("sac_body", "SB3 SAC, 4 environments like HalfCheetah, buffer of 400,000, full",
                 "`--apply replay`", ours("sac_body"), ours("sac_body"), "replay"),
        Training("own_trainer", "own trainer, a deque of 1,500 windows of 120×108×9",
                 "the lines that `explain` shows", ours("own_trainer"),
                 ours("own_trainer_changed")),
    ]  # fmt: skip
    if cleanrl:
        python, script = cleanrl
        command = (
            python, str(Path(__file__).with_name("cleanrl_training.py")), script,
            "--buffer-size", "50000", "--total-timesteps", "50000", "--learning-starts", "40000",
            "--train-frequency", "64",
        )  # fmt: skip
        rows.insert(4, Training("cleanrl", "CleanRL dqn_atari, Breakout, buffer of 50,000, full",
                                "`--apply replay`", command, command, "replay"))  # fmt: skip
    return rows


def measured(command: Sequence[str], apply: str, folder: str) -> Measured:
    options = ["--apply", apply] if apply else []
    out = Path(folder) / "one.ledger.jsonl"
    ramledger = Path(command[0]).with_name("ramledger")
    done = subprocess.run(
        [ramledger, "run", "--plain", "--json", "--force", "--out", out, *options, "--", *command],
        capture_output=True, text=True, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    # the program's own lines are on stderr where stdout has the document
    said = re.search(r"^RESULT (.*)$", done.stderr, re.MULTILINE)
    if said is None:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(said[1])
    return Measured(json.loads(done.stdout)["peak_bytes"], **result)


def row(training: Training, without: Measured, within: Measured) -> str:
    peaks = [f"{one.peak_bytes / MIB:,.0f} MiB" for one in (without, within)]
    speeds = [f"{one.steps_per_second:,.0f}" for one in (without, within)]
    same = "yes" if without.parameters == within.parameters else "no"
    return (
        f"| {training.text} | {training.remedy} | {peaks[0]} | {peaks[1]} | "
        f"{speeds[0]} → {speeds[1]} | {same} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--cleanrl", nargs=2, default=(), metavar=("PYTHON", "SCRIPT"))
    parser.add_argument("--only", nargs="*", default=())
    arguments = parser.parse_args()
    lines = [
        "| training | remedy | peak without | peak with | steps a CPU second | same parameters |",
        "|---|---|---|---|---|---|",
    ]
    before: dict[tuple[str, ...], Measured] = {}
    loads = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as folder:
        for training in trainings(arguments.cleanrl):
            if arguments.only and training.name not in arguments.only:
                continue
            if training.without not in before:
                before[training.without] = measured(training.without, "", folder)
            within = measured(training.within, training.apply, folder)
            lines.append(row(training, before[training.without], within))
            loads.append(os.getloadavg()[0])
            print(lines[-1], flush=True)
    print(f"load of the machine: {min(loads):.1f} to {max(loads):.1f}")
    if arguments.write:
        for name in ("docs/remedies.md", "README.md"):
            write(ROOT / name, lines)


def write(path: Path, lines: Sequence[str]) -> None:
    text = path.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    if not tail:
        raise SystemExit(f"{path} has no {BEGIN} … {END}")
    path.write_text(head + "\n".join([BEGIN, *lines, END]) + tail)


if __name__ == "__main__":
    main()
