"""What every entry of rl-zoo3's hyperparameter files needs: draws docs/plan-zoo.md.

    python -m examples.zoo_table FOLDER_WITH_YML_FILES > docs/plan-zoo.md

The files come with the package rl_zoo3, in its folder `hyperparams`.
"""

import sys
from pathlib import Path

from ramledger.errors import RamledgerError
from ramledger.plan.baseline import shipped_baseline
from ramledger.plan.budget import Budget
from ramledger.plan.make_plan import plan
from ramledger.plan.predict import Setting
from ramledger.plan.sources.any_source import overview
from ramledger.units import format_bytes

LIMIT = "16GiB"
HEAD = f"""\
# What the zoo needs

Every entry of the hyperparameter files of rl-zoo3 2.9.2, planned for a machine with 16 GiB of RAM
by `python -m examples.zoo_table`, or one file at a time by `ramledger plan ppo.yml --ram {LIMIT}`.
`atari` is planned as Pong.
What an environment holds for itself (a physics engine, a renderer) is not included.
"""


def main(folder: Path) -> None:
    print(HEAD)
    print("| algorithm | environment | RAM | low to high | buffer | peak in | verdict |")
    print("|---|---|--:|--:|--:|---|---|")
    left_out = []
    for path in sorted(folder.glob("*.yml")):
        found = overview(str(path), {"machine": {"ram": LIMIT, "cores": 8}})
        if found is None:
            continue
        readings, failed = found
        for name, reading in readings:
            try:
                print(line(path.stem, name, plan(reading, setting=Setting(shipped_baseline()))))
            except RamledgerError as error:
                failed.append((name, error.message))
        left_out += [f"{path.stem}: {name}" for name, _ in failed if name != "default"]
    print(f"\nNot planned, because their spaces are not known: {', '.join(left_out)}.")


def line(algorithm: str, name: str, budget: Budget) -> str:
    """One row of the table."""
    needed = budget.ram.needed
    buffer = sum(
        row.span.expected
        for row in budget.rows
        if row.account.startswith(("rollout/", "replay/")) and not row.transient
    )
    cells = [
        algorithm, name, format_bytes(needed.expected),
        f"{format_bytes(needed.low)} to {format_bytes(needed.high)}",
        format_bytes(buffer), budget.peak_phase, budget.verdict,
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
