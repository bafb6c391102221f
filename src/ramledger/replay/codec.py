"""Compression of blocks, by name. zlib is always there; zstd and lz4 are optional packages."""

import zlib
from collections.abc import Callable
from typing import Any

from ramledger.errors import ConfigError

RAW = ""
CODECS = ("zlib", "zstd", "lz4")
# less than this is not worth the time to decompress
MIN_GAIN = 0.1

_Codec = tuple[Callable[[Any], bytes], Callable[[Any, int], bytes]]


def codec_of(name: str) -> _Codec:
    """(compress, decompress) for a name; a missing package is named."""
    if name == "zlib":
        return lambda data: zlib.compress(data, 1), lambda data, size: zlib.decompress(data)
    if name == "zstd":
        zstd = _imported("zstandard", name)
        compressor = zstd.ZstdCompressor(level=1)  # one thread compresses, many may decompress
        return (
            lambda data: bytes(compressor.compress(data)),
            lambda data, size: bytes(zstd.ZstdDecompressor().decompress(data, size)),
        )
    if name == "lz4":
        lz4 = _imported("lz4.block", name)
        return (
            lambda data: bytes(lz4.compress(data, store_size=False)),
            lambda data, size: bytes(lz4.decompress(data, uncompressed_size=size)),
        )
    raise ConfigError(f"unknown compression {name!r}", hint=f"there are {', '.join(CODECS)}")


def _imported(module: str, name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        raise ConfigError(
            f"compression {name!r} needs a package that is not installed",
            hint="pip install 'ramledger[compress]', or use 'zlib'",
        ) from None
