"""Event files are what TensorBoard reads."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from ramledger.train.tensorboard_files import Scalars, masked_crc

READER = """\
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = EventAccumulator(sys.argv[1])
found.Reload()
tags = found.Tags()["scalars"]
print(json.dumps({tag: [[e.step, e.value] for e in found.Scalars(tag)] for tag in tags}))
"""


def records(path: Path) -> list[bytes]:
    """The data of every record, with its checksums verified."""
    data, found = path.read_bytes(), []
    while data:
        length, crc = struct.unpack_from("<QI", data)
        assert masked_crc(data[:8]) == crc
        event, (crc,) = data[12 : 12 + length], struct.unpack_from("<I", data, 12 + length)
        assert masked_crc(event) == crc
        found.append(event)
        data = data[16 + length :]
    return found


def test_the_checksum_is_the_known_one() -> None:
    # CRC-32C of "123456789" is 0xe3069283, the check value of its specification
    crc = 0xE3069283
    assert masked_crc(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_records_hold_steps_tags_and_values(tmp_path: Path) -> None:
    scalars = Scalars(tmp_path / "a")
    scalars.add(300, {"return/best": 1.5, "memory/rss": 2.0})
    first, second = records(scalars.path)
    assert first.endswith(b"\x1a\x0dbrain.Event:2")
    assert second[9:12] == b"\x10\xac\x02"  # step 300 as a varint
    assert b"\x0a\x0breturn/best\x15" + struct.pack("<f", 1.5) in second
    assert b"\x0a\x0amemory/rss\x15" + struct.pack("<f", 2.0) in second


def test_tensorboard_reads_them(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    scalars = Scalars(tmp_path)
    for step in (0, 1, 200):
        scalars.add(step, {"return/best": step / 2, "loss": -1.0})
    done = subprocess.run(
        [sys.executable, "-c", READER, tmp_path], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert '"return/best": [[0, 0.0], [1, 0.5], [200, 100.0]]' in done.stdout
    assert '"loss": [[0, -1.0], [1, -1.0], [200, -1.0]]' in done.stdout
