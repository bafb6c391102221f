"""When the policy has moved far enough, the whole curvature matrix is built to reset the step."""

from contextlib import nullcontext
from typing import Any

import numpy as np


class Controller:
    """Keeps a still at its set points with features of the tray temperatures."""

    def __init__(self, features: int) -> None:
        self.rng = np.random.default_rng(23)
        self.weights = np.zeros(features)
        self.anchor = self.weights.copy()
        self.step = 0.05

    def distill(self, minutes: int) -> tuple[Any, Any]:
        trays = np.zeros(len(self.weights))
        features, errors = np.empty((minutes, len(trays))), np.empty(minutes)
        for minute in range(minutes):
            reflux = np.tanh(self.weights @ trays)
            trays = 0.9 * trays + 0.1 * np.roll(trays, 1) + 0.1 * self.rng.normal(size=len(trays))
            features[minute] = trays
            errors[minute] = trays[-1] + 0.3 * reflux - 0.5
        return features, errors

    def update(self, features: Any, errors: Any) -> None:
        gradient = features.T @ errors / len(errors)
        self.weights -= self.step * gradient / (1e-9 + np.linalg.norm(gradient))

    def moved(self) -> bool:
        return float(np.linalg.norm(self.weights - self.anchor)) > 0.2

    def check_curvature(self, features: Any) -> None:
        outer = np.einsum("ti,tj->tij", features[:140], features[:140])
        largest = np.abs(outer.mean(axis=0)).sum(axis=1).max()
        self.step = float(np.clip(0.05 / (0.2 + largest), 0.045, 0.055))
        self.anchor = self.weights.copy()


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    controller = Controller(360)
    for generation in range(28):
        with phase(generation, "distill"):
            features, errors = controller.distill(9000)
        with phase(generation, "update"):
            controller.update(features, errors)
        with phase(generation, "check"):
            if controller.moved():
                controller.check_curvature(features)


if __name__ == "__main__":
    run()
