"""Compressed rows give their memory back to the system."""

import subprocess
import sys
from pathlib import Path

import pytest

from ramledger.replay import Frames, ReplayBuffer, Schema

RESIDENT = """
import numpy as np
from ramledger.replay import Field, Frames, ReplayBuffer, Schema
def rss():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) << 10
buffer = ReplayBuffer(Schema(Frames((84, 84), "uint8", 4)), 8000, compress="zlib")
frames = np.zeros((12004, 84, 84), np.uint8)
for at in range(1, len(frames)):
    frames[at] = frames[at - 1]
    frames[at, at % 84] = at % 251
windows = np.moveaxis(np.lib.stride_tricks.sliding_window_view(frames, 4, axis=0), -1, 1)
no, zeros = np.zeros(100, bool), np.zeros(100, np.float32)
before = rss()
for at in range(0, 12000, 100):
    buffer.extend(windows[at:at + 100], zeros, zeros, windows[at + 1:at + 101], no)
print((rss() - before) / len(buffer), buffer.bytes_per_transition)
"""


def test_memory_is_really_given_back() -> None:
    command = [sys.executable, "-c", RESIDENT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    resident, said = map(float, done.stdout.split())
    # a frame has 7056 bytes
    assert resident < 1200
    assert said < 1200


@pytest.mark.parametrize(("compress", "is_huge"), [("zlib", False), ("", True)])
def test_pages_that_are_given_back_are_small(compress: str, is_huge: bool) -> None:
    """In a large page that is partly given back, the kernel fills the rest with zeros later."""
    buffer = ReplayBuffer(Schema(Frames((84, 84), "uint8", 4)), 8000, compress=compress)
    address = buffer.store.rows["obs"].__array_interface__["data"][0]
    flags = []
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            first, last = (int(part, 16) for part in words[0].split("-"))
        elif words[0] == "VmFlags:" and first <= address < last:
            flags = words
    assert flags
    assert ("hg" in flags) == is_huge
