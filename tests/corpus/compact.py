"""A recording as it is kept: without anything of the machine it was made on, and compressed.

Every event is kept, as rules that are still to be made may read what none reads today.
"""

import json
import lzma
import re
from pathlib import Path
from typing import Any

# an absolute path keeps its last part; /dev and /proc are the same everywhere
_MACHINE_FOLDERS = re.compile(
    r"""/(?:tmp|work|home|root|opt|usr|var|mnt|srv|nix|data)/(?:[^/\s"',()\[\]]+/)*"""
)


def compact(raw: Path, out: Path) -> str:
    """Write a recording as it is kept; says how long it lasts and how large it was and is."""
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(line) for line in raw.read_text(encoding="utf-8").splitlines()]
    header, *events = (anonymous(line) for line in lines)
    header |= {"directory": "", "started_at": 0.0}
    header["host"]["system"] = header["host"]["system"].partition(" ")[0]
    text = "".join(json.dumps(e, separators=(",", ":")) + "\n" for e in (header, *events))
    out.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    iterations = sum(event["event"] == "generation" for event in events)
    seconds = max(event["t"] for event in events)
    return f"{iterations:3} iterations, {seconds:5.1f} s, {out.stat().st_size / 1000:.1f} kB"


def anonymous(value: Any) -> Any:
    """The same value, with no folder of this machine in its texts."""
    if isinstance(value, str):
        return _MACHINE_FOLDERS.sub("", value)
    if isinstance(value, list):
        return [anonymous(part) for part in value]
    if isinstance(value, dict):
        return {anonymous(key): anonymous(part) for key, part in value.items()}
    return value


def text_of(path: Path) -> str:
    """A kept recording as JSON Lines."""
    return lzma.decompress(path.read_bytes()).decode()
