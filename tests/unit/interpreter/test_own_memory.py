"""Memory read by address: right where there is some, an error where there is none."""

import ctypes
import os

import pytest

from ramledger.interpreter.own_memory import OwnMemory


def test_words_are_those_that_stand_there() -> None:
    numbers = (ctypes.c_uint64 * 3)(1, 2**63, 3)
    with OwnMemory() as memory:
        assert memory.reader()(ctypes.addressof(numbers), 3) == (1, 2**63, 3)


@pytest.mark.parametrize("address", [0, 8, -8, 1 << 46, 1 << 63, (1 << 64) - 8])
def test_a_wrong_address_is_an_error(address: int) -> None:
    with OwnMemory() as memory, pytest.raises(OSError):
        memory.reader()(address, 1)


def test_a_closed_one_is_an_error() -> None:
    memory = OwnMemory()
    memory.close()
    with pytest.raises(OSError):
        memory.reader()


def test_one_that_is_dropped_is_closed() -> None:
    def held() -> int:
        return sum(os.readlink(f"/proc/self/fd/{n}").endswith("/mem") for n in numbers())

    before = held()
    memory = OwnMemory()
    assert held() == before + 1
    del memory
    assert held() == before


def numbers() -> list[str]:
    return [n for n in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{n}")]
