"""The regular-expression match of each simulator log is kept, and with it the text of the log."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

SUMMARY = re.compile(r"# fell=(?P<fell>\d) energy=(?P<energy>[\d.]+) distance=(?P<way>-?[\d.]+)")
CONTACT = re.compile(r"foot=(\d) force=([\d.]+)")


def gait(rng: Any, policy: Any, steps: int) -> Iterator[Any]:
    phase, feet = rng.uniform(0, 6, 4), np.zeros(4)
    for step in range(steps):
        swing = np.sin(phase + 0.05 * step)
        feet = 0.9 * feet + 0.1 * np.tanh(policy @ swing) + rng.normal(0, 0.01, 4)
        yield np.maximum(0.0, 40 + 200 * feet)


def write_log(rng: Any, policy: Any, steps: int) -> str:
    lines, energy, way = [], 0.0, 0.0
    for step, forces in enumerate(gait(rng, policy, steps)):
        for foot, force in enumerate(forces.tolist()):
            slip = force / 977
            lines.append(f"t={step * 0.002:.3f} foot={foot} force={force:.4f} slip={slip:.6f}")
            energy += force * 0.002
        way += float(forces[0] - forces[3]) * 1e-4
    lines.append(f"# fell={int(energy > 9e9)} energy={energy:.3f} distance={way:.4f}")
    return "\n".join(lines) + "\n"


def summarize(log: str) -> re.Match[str]:
    found = SUMMARY.search(log, len(log) - 200)
    if found is None:
        raise ValueError("the simulator stopped early")
    return found


class Study:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(77)
        self.policy = np.eye(4)
        self.runs: list[re.Match[str]] = []
        self.candidates: list[Any] = []

    def simulate(self, robots: int) -> float:
        self.candidates = [self.policy + self.rng.normal(0, 0.1, (4, 4)) for _ in range(robots)]
        hardest = 0.0
        for candidate in self.candidates:
            log = write_log(self.rng, candidate, 6800)
            hardest = max(hardest, *(float(force) for _, force in CONTACT.findall(log, 0, 20000)))
            self.runs.append(summarize(log))
        return hardest

    def select(self) -> None:
        latest = self.runs[-len(self.candidates) :]
        best = int(np.argmax([float(found["way"]) for found in latest]))
        self.policy = self.candidates[best]

    def report(self) -> str:
        energies = [float(found["energy"]) for found in self.runs]
        return f"{len(energies)} runs, mean energy {np.mean(energies):.1f}"


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    study = Study()
    for generation in range(25):
        with phase(generation, "simulate"):
            study.simulate(robots=5)
        with phase(generation, "select"):
            study.select()
        with phase(generation, "report"):
            study.report()


if __name__ == "__main__":
    run()
