"""Each solve writes its iterations to a memory stream of the C library that is left open."""

import ctypes
from contextlib import nullcontext
from typing import Any

import numpy as np

LIBC = ctypes.CDLL(None)
LIBC.fmemopen.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
LIBC.fmemopen.restype = ctypes.c_void_p
LIBC.fwrite.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
LIBC.fflush.argtypes = [ctypes.c_void_p]


class IterationLog:
    """Binary record of a solver in a stream of the C library."""

    def __init__(self, size: int) -> None:
        self.stream = LIBC.fmemopen(None, size, b"w+")

    def write(self, row: Any) -> None:
        LIBC.fwrite(row.ctypes.data, row.itemsize, row.size, self.stream)

    def finish(self) -> None:
        LIBC.fflush(self.stream)


class Controller:
    """Model predictive control by iterated gradient steps on a plan."""

    def __init__(self, horizon: int, iterations: int) -> None:
        self.horizon, self.iterations = horizon, iterations
        self.pull = np.tril(np.ones((horizon, horizon))) * 0.05
        self.plan = np.zeros((horizon, 4))

    def solve(self, state: Any, target: Any) -> Any:
        log = IterationLog(self.iterations * self.plan.nbytes + 1)
        plan = np.roll(self.plan, -1, axis=0)
        for _ in range(self.iterations):
            path = state + self.pull @ plan
            plan = plan - 0.05 * (self.pull.T @ (path - target) + 0.01 * plan)
            log.write(plan)
        log.finish()
        self.plan = plan
        return plan[0]


class Rotor:
    def __init__(self, rng: Any) -> None:
        self.rng = rng
        self.state = np.zeros(4)

    def apply(self, torque: Any) -> float:
        self.state = 0.995 * self.state + 0.05 * torque + self.rng.normal(0, 0.01, 4)
        return float(np.abs(self.state).sum())


def control(rotor: Rotor, controller: Controller, steps: int) -> Any:
    states = []
    for step in range(steps):
        target = np.sin(step / 10 + np.arange(4))
        rotor.apply(controller.solve(rotor.state, target))
        states.append(rotor.state)
    return np.stack(states)


def identify(states: Any, noise: Any) -> float:
    spectrum = np.zeros(512)
    for shift in range(9000):
        signal = np.resize(states[:, shift % 4], 1024) + noise
        spectrum += np.abs(np.fft.rfft(np.roll(signal, shift)))[:512]
    return float(spectrum.argmax())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(15)
    rotor, controller = Rotor(rng), Controller(horizon=32, iterations=120)
    for generation in range(32):
        with phase(generation, "control"):
            states = control(rotor, controller, 20)
        with phase(generation, "identify"):
            identify(states, rng.normal(0, 0.1, 1024))


if __name__ == "__main__":
    run()
