"""Modules that call themselves torch, numpy and the like; some of them are not even modules."""

import os
import sys
import time
import types

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
touched = []


class FakeModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        touched.append(f"{self.__name__}.{name}")
        raise RuntimeError(f"there is no {name}")


class NoModule:
    def __getattr__(self, name):
        touched.append(name)
        return 42


LIBRARIES = [
    "numpy",
    "torch",
    "tensorflow",
    "keras",
    "gymnasium",
    "stable_baselines3",
    "ray",
    "jax",
    "pandas",
]
for number, name in enumerate(LIBRARIES):
    sys.modules[name] = FakeModule(name) if number % 2 else NoModule()
sys.modules["torch"].Tensor = "no class"
sys.modules["torch"].nn = None
sys.modules["absent"] = None
sys.modules["torch.nn"] = sys.modules["torch.optim"] = sys.modules["torch.cuda"] = None
big = bytearray(8 << 20)


def work(number):
    return sum(range(number))


end = time.monotonic() + SECONDS
while time.monotonic() < end:
    work(1000)
    time.sleep(0.02)
print("OK" if not touched else f"somebody touched {sorted(set(touched))}")
