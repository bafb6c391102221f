"""A lazily loaded module: asking it for anything has an effect, so nobody but us may ask."""

import os
import sys
import time
import types

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
touched = []


def __getattr__(name):
    touched.append(f"__main__.{name}")
    raise AttributeError(name)


class Loader(types.ModuleType):
    def __getattribute__(self, name):
        touched.append(f"getattribute {name}")
        return super().__getattribute__(name)


lazy = types.ModuleType("lazy")
lazy.__getattr__ = lambda name: touched.append(f"lazy.{name}")
sys.modules["lazy"] = lazy
loader = sys.modules["loader"] = Loader("loader")
touched.clear()


def work(number):
    return sum(range(number))


end = time.monotonic() + SECONDS
while time.monotonic() < end:
    work(1000)
    time.sleep(0.02)
print("OK" if not touched else f"somebody touched {sorted(set(touched))}")
sys.modules.pop("loader")
