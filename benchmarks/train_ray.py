"""What the Ray engine costs: the same run on both engines, the terms of a model, and the model.

    python benchmarks/train_ray.py [--workers 2] [--generations 4]

Needs `make test-ray`'s environment. The model adds up the measured terms for more workers than
this machine has cores: it knows nothing of networks between nodes.
"""

import argparse
import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray

import ramledger
from ramledger.train.engine import explored, validated
from ramledger.train.ray_engine import RayEngine
from ramledger.train.shard import state_of, take_state
from ramledger.train.trainer import Listener, Trainer
from ramledger.trainer_config import checked
from ramledger.units import format_bytes

CASES = {"64×64, batch 64": ([64, 64], 64), "256×256, batch 256": ([256, 256], 256)}
UPDATES, AGENTS = 64, 16


class Clock(Listener):
    """Seconds of every phase and generation."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def end(self, trainer: Trainer, phase: str, seconds: float) -> None:
        self.seconds.setdefault(phase, []).append(seconds)

    def median(self, phase: str) -> float:
        return float(np.median(self.seconds[phase][1:]))  # the first one starts everything


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--generations", type=int, default=4)
    parser.add_argument("--case", choices=list(CASES))
    options = parser.parse_args(arguments)
    ray.init(num_cpus=options.workers + 1, include_dashboard=False, logging_level=logging.ERROR,
             object_store_memory=400 << 20, log_to_driver=False)  # fmt: skip
    for name in [options.case] if options.case else CASES:
        hidden, batch = CASES[name]
        changes = {"generations": options.generations, "shards": options.workers,
                   "population": AGENTS, "updates": UPDATES,
                   "learning": {"hidden": hidden, "batch": batch}}  # fmt: skip
        print(f"\n{name}, {AGENTS} agents, {UPDATES} updates, median seconds of a generation")
        _compare(changes)
        _model(changes)
    ray.shutdown()


def _compare(changes: dict[str, Any]) -> None:
    print("| engine | evaluate | train | evolve | RSS or PSS |\n|---|---|---|---|---|")
    tensors = []
    for kind in ("local", "ray"):
        config, clock = checked(changes), Clock()
        engine = RayEngine(config) if kind == "ray" else None
        trainer = Trainer(config, Path(tempfile.mkdtemp()), ledger=ramledger.record(),
                          listener=clock, engine=engine)  # fmt: skip
        trainer.run()
        tensors.append([tensor for _, tensor in trainer.population.tensors()])
        held = format_bytes(trainer.ledger.snapshot(objects=False).rss_bytes)
        if engine is not None:
            held = " + ".join(format_bytes(found["pss_bytes"]) for found in engine.memory)
        cells = [f"{clock.median(phase):.2f}" for phase in ("evaluate", "train", "evolve")]
        print(f"| {kind} | {' | '.join(cells)} | {held} |", flush=True)
    is_same = all(bool((one == other).all()) for one, other in zip(*tensors, strict=True))
    print(f"the same parameters, bit by bit: {is_same}")


def _model(changes: dict[str, Any]) -> None:
    """Terms by agent, then the generation they add up to."""
    config = checked({**changes, "shards": 1})
    engine = RayEngine(config)
    trainer = Trainer(config, Path(tempfile.mkdtemp()), ledger=ramledger.record(), engine=engine)
    engine.explore(trainer)
    actor = engine._actors[0]
    batch = trainer.sample()
    arrays = tuple(part.numpy() for part in (batch.features, batch.action, batch.reward,
                                             batch.next_features, batch.discount))  # fmt: skip
    rng = np.random.default_rng(0)
    episodes = explored(config, trainer.task, trainer.population, 0)
    state = state_of(trainer.population, 0, AGENTS, 0)

    def exchange() -> None:
        ray.get(actor.load.remote(ray.put(state)))
        take_state(trainer.population, 0, AGENTS, ray.get(actor.learned.remote()))

    terms = {
        "explore": _seconds(lambda: explored(config, trainer.task, trainer.population, 0)),
        "store": _seconds(lambda: episodes.store(trainer.buffer)),
        "update": _seconds(lambda: trainer.population.update(batch, rng)),
        "feed": _seconds(trainer.sample) + _seconds(lambda: ray.put(arrays)),
        "exchange": _seconds(exchange),
        "validate": _seconds(lambda: validated(config, trainer.task, trainer.population)),
        "evolve": _seconds(
            lambda: trainer.population.evolve(
                trainer.fitness, rng, config.evolution, batch.features[:1]
            )
        ),
    }
    trip = _seconds(lambda: ray.get(actor.__ray_ready__.remote()))
    size = sum(array.nbytes for array in arrays)
    print(f"terms, ms for {AGENTS} agents: " + ", ".join(
        f"{name} {1e3 * seconds:.2f}" for name, seconds in terms.items()))  # fmt: skip
    held = sum(tensor.nbytes for _, tensor in trainer.population.tensors())
    print(
        f"a round trip {1e3 * trip:.2f} ms, minibatches {format_bytes(size)}, "
        f"state {format_bytes(held)}"
    )
    print("| workers | agents | one process | workers | speedup | the trainer is busy |")
    print("|---|---|---|---|---|---|")
    for workers in (2, 8, 64, 512):
        _print_row(workers, terms, trip)
    engine.close()


def _print_row(workers: int, terms: dict[str, float], trip: float) -> None:
    agents = max(AGENTS, 2 * workers)
    share = agents / AGENTS
    local = share * (terms["explore"] + terms["store"] + terms["validate"] + terms["evolve"]
                     + UPDATES * (terms["update"] + terms["feed"]))  # fmt: skip
    # the trainer feeds all, one after the other; the workers compute side by side
    feeding = share * terms["feed"]
    alone = share * (terms["store"] + terms["exchange"] + terms["evolve"]) + 4 * trip
    together = share * (terms["explore"] + terms["validate"]) / workers
    updates = UPDATES * max(share * terms["update"] / workers, feeding)
    wall = alone + together + updates
    busy = (alone + UPDATES * feeding) / wall
    print(f"| {workers} | {agents} | {local:.2f} s | {wall:.2f} s | {local / wall:.1f} "
          f"| {busy:.0%} |")  # fmt: skip


def _seconds(action: Callable[[], Any], times: int = 5) -> float:
    """The least of a few."""
    best = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - begin)
    return best


if __name__ == "__main__":
    main()
