"""The picture of docs/train.md: what `train_learning.py --save curves.jsonl` has written.

python benchmarks/train_curves.py curves.jsonl docs/train-learning.svg
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt

TITLES = {"pendulum": "Pendulum-v1", "trading": "trading, planted signal"}
BAR = {"pendulum": -250.0}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("curves", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args(arguments)
    runs = [json.loads(line) for line in options.curves.read_text().splitlines()]
    plt.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "ramledger", "font.size": 9}
    figure, axes = plt.subplots(1, len(TITLES), figsize=(8, 2.8), layout="constrained")
    for axis, (case, title) in zip(axes, TITLES.items(), strict=True):
        chosen = [run for run in runs if run["case"] == case]
        for run in chosen:
            steps = [row["transitions"] for row in run["history"]]
            axis.plot(steps, [row["best_validation"] for row in run["history"]], lw=1.2,
                      label=f"seed {run['seed']}")  # fmt: skip
        random = sum(run["scores"]["random"] for run in chosen) / len(chosen)
        axis.axhline(random, color="gray", lw=0.8, ls=":", label="random")
        if case in BAR:
            axis.axhline(BAR[case], color="black", lw=0.8, ls="--", label=f"{BAR[case]:g}")
        axis.set(title=title, xlabel="transitions", ylabel="validation return of the best agent")
        axis.legend(fontsize=7, frameon=False)
    figure.savefig(options.picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
