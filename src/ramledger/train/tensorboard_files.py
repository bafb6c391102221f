"""Scalars for TensorBoard: event files, written without its libraries.

A file is records of length, checksum, data, checksum (TFRecord); data is an `Event` in protocol
buffers' wire format. Only the fields that a scalar needs are written.
"""

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from ramledger import CheckpointError

_POLYNOMIAL = 0x82F63B78  # CRC-32C (RFC 3720), bits reversed
_MASK_DELTA = 0xA282EAD8
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5  # wire types


def _table() -> tuple[int, ...]:
    rows = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        rows.append(byte)
    return tuple(rows)


_TABLE = _table()


def masked_crc(data: bytes) -> int:
    """CRC-32C, rotated and shifted as TFRecord wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


class Scalars:
    """One event file in a folder; a run that is resumed adds another one."""

    def __init__(self, folder: Path) -> None:
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
        self.path = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._write(_bytes(3, b"brain.Event:2"))
        except OSError as error:
            raise CheckpointError(
                f"cannot write to {folder}: {error.strerror}", hint="choose another --out"
            ) from None

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Values of one step, all in one event."""
        summary = b"".join(
            _bytes(1, _bytes(1, tag.encode()) + _key(2, _FOUR_BYTES) + struct.pack("<f", value))
            for tag, value in values.items()
        )
        self._write(_key(2, _VARINT) + _varint(step) + _bytes(5, summary))

    def _write(self, fields: bytes) -> None:
        event = _key(1, _EIGHT_BYTES) + struct.pack("<d", time.time()) + fields
        length = struct.pack("<Q", len(event))
        record = length + struct.pack("<I", masked_crc(length))
        record += event + struct.pack("<I", masked_crc(event))
        with self.path.open("ab") as file:
            file.write(record)


def _key(field: int, wire_type: int) -> bytes:
    return bytes([field << 3 | wire_type])


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _bytes(field: int, data: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(data)) + data
