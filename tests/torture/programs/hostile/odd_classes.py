"""Classes that refuse to be looked at; none of their code may run because somebody does."""

import os
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
touched = []


class EqualNotHashable(type):
    def __eq__(cls, other):
        touched.append("metaclass __eq__")
        return True


class RaisingMeta(type):
    @property
    def __mro__(cls):
        touched.append("__mro__")
        raise RuntimeError("no mro")

    @property
    def __dict__(cls):
        touched.append("__dict__")
        raise RuntimeError("no dict")

    @property
    def __name__(cls):
        touched.append("__name__")
        raise RuntimeError("no name")

    @property
    def __module__(cls):
        touched.append("__module__")
        raise RuntimeError("no module")

    def __hash__(cls):
        touched.append("metaclass __hash__")
        raise RuntimeError("no hash")

    def __instancecheck__(cls, instance):
        touched.append("__instancecheck__")
        raise RuntimeError("no instances")

    def __subclasscheck__(cls, subclass):
        touched.append("__subclasscheck__")
        raise RuntimeError("no subclasses")

    def __getattribute__(cls, name):
        touched.append(f"metaclass __getattribute__ {name}")
        raise AttributeError(name)


def raising(name):
    def method(self, *arguments):
        touched.append(name)
        raise RuntimeError(name)

    return method


METHODS = [
    "__getattribute__",
    "__getattr__",
    "__eq__",
    "__hash__",
    "__len__",
    "__iter__",
    "__bool__",
    "__sizeof__",
    "__repr__",
    "__str__",
    "__contains__",
    "__getitem__",
    "__index__",
    "__array__",
    "__reduce_ex__",
    "__dir__",
    "__format__",
]
Refusing = type("Refusing", (), {name: raising(name) for name in METHODS})
OddList = type("OddList", (list,), {n: raising(n) for n in METHODS if n != "__getattribute__"})
OddDict = type("OddDict", (dict,), {n: raising(n) for n in METHODS if n != "__getattribute__"})
OddText = type("OddText", (str,), {n: raising(n) for n in METHODS if n != "__getattribute__"})
Unhashable = EqualNotHashable("Unhashable", (), {"held": [bytes(1000)]})
Raising = RaisingMeta("Raising", (), {})


class Lazy:
    @property
    def value(self):
        touched.append("property")
        return bytes(1 << 20)

    @property
    def __class__(self):
        touched.append("__class__")
        raise RuntimeError("no class")

    nbytes = shape = dtype = data = property(lambda self: touched.append("nbytes"))


class Slotted:
    __slots__ = ("never_set", "set")


kept = [Refusing() for _ in range(50)]
kept += [Unhashable() for _ in range(50)]
kept += [type.__call__(Raising) for _ in range(50)]
kept += [Lazy(), Slotted(), OddList([1, 2, bytes(100_000)]), OddText("odd")]
attributes = OddDict(a=bytes(100_000))
big = bytearray(8 << 20)
touched.clear()


def work(number):
    return sum(range(number))


end = time.monotonic() + SECONDS
while time.monotonic() < end:
    work(1000)
    time.sleep(0.02)
print("OK" if not touched else f"somebody touched {sorted(set(touched))}")
