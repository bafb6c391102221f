"""Weights are broadcast twice a generation through a queue that the actor reads only once."""

import multiprocessing
from contextlib import nullcontext
from typing import Any

import numpy as np

CONTEXT = multiprocessing.get_context("fork")


class Actor(CONTEXT.Process):  # type: ignore[name-defined,misc]
    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.weights: Any = CONTEXT.Queue()
        self.orders: Any = CONTEXT.Queue()
        self.returns: Any = CONTEXT.Queue()

    def run(self) -> None:
        rng = np.random.default_rng(13)
        while self.orders.get() == "play":
            weights = self.weights.get()
            observation = rng.standard_normal(768)
            for _ in range(40):
                observation = np.tanh(weights["body"] @ observation / 32)[:768]
            self.returns.put(float(observation.mean()))


class Learner:
    def __init__(self) -> None:
        rng = np.random.default_rng(12)
        self.body = rng.standard_normal((1024, 768))
        self.version = 0

    def gradient_steps(self, count: int) -> None:
        for _ in range(count):
            signal = self.body @ self.body[self.version % 1024]
            self.body *= 1 - 1e-6 * float(np.tanh(signal).mean())
        self.version += 1

    def broadcast(self, actor: Actor) -> None:
        actor.weights.put({"version": self.version, "body": self.body.copy()})


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    actor, learner = Actor(), Learner()
    actor.start()
    for generation in range(22):
        with phase(generation, "broadcast"):
            learner.broadcast(actor)
        with phase(generation, "learn"):
            learner.gradient_steps(240)
        with phase(generation, "broadcast"):
            learner.broadcast(actor)
        with phase(generation, "act"):
            actor.orders.put("play")
            actor.returns.get()
    actor.weights.cancel_join_thread()
    actor.orders.put("stop")
    actor.terminate()
    actor.join()


if __name__ == "__main__":
    run()
