"""Event files are what TensorBoard reads."""

import struct
from pathlib import Path

from ramledger.train.tensorboard_files import Scalars, masked_crc


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
