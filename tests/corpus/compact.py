"""Makes a recording small enough to keep."""

import lzma
from pathlib import Path


def compact(raw: Path, out: Path) -> str:
    """Write what a judgement needs of a recording; says how long it was and how large it is."""
    out.parent.mkdir(parents=True, exist_ok=True)
    data = raw.read_bytes()
    out.write_bytes(lzma.compress(data, preset=9))
    return f"{len(data)} -> {out.stat().st_size}"
