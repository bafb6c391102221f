"""Compression of blocks, by name. zlib is always there; zstd and lz4 are optional packages."""

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from ramledger.errors import ConfigError

RAW = ""
CODECS = ("zlib", "zstd", "lz4")
# a smaller gain is not worth the time to decompress
MIN_GAIN = 0.1
# the largest ratio that each format can reach: a larger one is not a compressor's output
MOST_GAIN = {RAW: 1, "zlib": 1040, "zstd": 1 << 17, "lz4": 256}

_Codec = tuple[Callable[[Any], bytes], Callable[[Any, int], bytes]]


def codec_of(name: str) -> _Codec:
    """(compress, decompress) for a name; a missing package is named."""
    if name == "zlib":
        return lambda data: zlib.compress(data, 1), _inflated
    if name == "zstd":
        zstd = _imported("zstandard", name)
        compressor = zstd.ZstdCompressor(level=1)  # one thread compresses, many may decompress
        return (
            lambda data: bytes(compressor.compress(data)),
            partial(_unpacked, zstd),
        )
    if name == "lz4":
        lz4 = _imported("lz4.block", name)
        return (
            lambda data: bytes(lz4.compress(data, store_size=False)),
            lambda data, size: bytes(lz4.decompress(data, uncompressed_size=size)),
        )
    raise ConfigError(f"unknown compression {name!r}", hint=f"use one of {', '.join(CODECS)}")


def _inflated(data: Any, size: int) -> bytes:
    """Never more than `size` bytes, whatever the data says."""
    return zlib.decompressobj().decompress(data, max(size, 1))


def _unpacked(zstd: Any, data: Any, size: int) -> bytes:
    # the size in a frame's head is allocated before anything is read
    if zstd.frame_content_size(data) not in (size, -1):
        raise ValueError(f"a frame of {zstd.frame_content_size(data)} bytes, not {size}")
    return bytes(zstd.ZstdDecompressor().decompress(data, size))


def _imported(module: str, name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        raise ConfigError(
            f"compression {name!r} needs a package that is not installed",
            hint="pip install 'ramledger[compress]', or use 'zlib'",
        ) from None
