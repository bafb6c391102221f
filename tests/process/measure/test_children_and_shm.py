"""Memory of children and of /dev/shm, as the code that fills it is sampled."""

import mmap
import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection

from ramledger.measure.children_and_shm import ChildrenAndShmMeter
from ramledger.measure.own_memory import Meter
from ramledger.units import MIB


def _fill(pipe: Connection) -> None:
    pipe.recv()
    # bytes might come from room that the parent has freed
    held = mmap.mmap(-1, 12 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    held.write(b"w" * (12 * MIB))
    pipe.send(len(held))
    pipe.recv()
    held.close()


def look(meter: ChildrenAndShmMeter) -> int:
    time.sleep(0.1)  # longer than the rest it takes after each look
    return meter.children_bytes(Meter().anon_bytes())


def test_what_a_child_fills_is_counted_and_what_it_inherits_is_not() -> None:
    own = bytearray(b"o") * (20 * MIB)
    near, far = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=_fill, args=(far,))
    meter = ChildrenAndShmMeter()
    before = look(meter)
    child.start()
    started = look(meter)
    near.send("go")
    near.recv()
    filled = look(meter)
    near.send("end")
    child.join()
    assert started - before < 4 * MIB
    assert 11 * MIB <= filled - started <= 30 * MIB
    assert len(own) == 20 * MIB


def test_shared_memory_is_counted_whoever_fills_it() -> None:
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        file.write(b"s" * (64 * MIB))
        file.flush()
        assert ChildrenAndShmMeter().shm_bytes() >= 64 * MIB
