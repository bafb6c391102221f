"""Does it learn: Pendulum-v1 and trading with a planted signal, over several seeds.

    python benchmarks/train_learning.py [--seeds 5] [--first 0] [--save curves.jsonl] [pendulum]

The budget is fixed below; every seed gets all of it, and the best agent by validation is judged on
episodes that neither training nor validation saw.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ramledger

ledger = ramledger.record()

from ramledger.train.evaluation import compare  # noqa: E402
from ramledger.train.trainer import Trainer  # noqa: E402
from ramledger.trainer_config import checked  # noqa: E402

CASES: dict[str, dict[str, Any]] = {
    "pendulum": {
        "env": "Pendulum-v1", "population": 8, "generations": 50, "updates": 200,
        "validation_episodes": 4, "capacity": 80_000,
        "learning": {"hidden": [64, 64], "batch": 64, "gamma": 0.98, "tau": 0.01,
                     "actor_lr": 1e-3, "critic_lr": 2e-3},
        "exploration": {"sigma": 0.15},
    },
    "trading": {
        "env": "trading", "population": 8, "generations": 30, "updates": 150,
        "validation_episodes": 4, "capacity": 40_000,
        "learning": {"hidden": [64, 64], "batch": 64, "gamma": 0.5, "tau": 0.01,
                     "actor_lr": 1e-3, "critic_lr": 1e-3, "action_penalty": 1e-3},
        "exploration": {"sigma": 0.3},
        "market": {"rows": 2500, "assets": 3, "features": 3, "signal": 0.6},
        "trading": {"window": 8, "steps": 125, "cost": 0.0005},
    },
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="seed to begin with")
    parser.add_argument("--save", type=Path, help="append every run's curve to this file")
    options = parser.parse_args(arguments)
    for name in options.cases:
        print("| case | seed | best agent | random | buy and hold | CPU s |")
        print("|---|---|---|---|---|---|")
        for seed in range(options.first, options.first + options.seeds):
            print(_row(name, seed, options.save), flush=True)


def _row(name: str, seed: int, save: Path | None) -> str:
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(checked({**CASES[name], "seed": seed}), Path(folder), ledger=ledger)
        trainer.run()
    seconds = time.process_time() - begin
    scores = {score.name: score for score in compare(trainer.task, trainer.population)}
    if save is not None:
        found = {"case": name, "seed": seed, "history": trainer.history,
                 "scores": {way: score.mean for way, score in scores.items()}}  # fmt: skip
        with save.open("a") as file:
            file.write(json.dumps(found) + "\n")
    cells = [f"{scores[way].mean:.1f}" if way in scores else "" for way in
             ("best agent", "random", "buy and hold")]  # fmt: skip
    return f"| {name} | {seed} | {' | '.join(cells)} | {seconds:.0f} |"


if __name__ == "__main__":
    main()
