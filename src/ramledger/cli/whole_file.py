"""Files that appear whole or not at all: what was there before stays until then."""

import os
from contextlib import suppress


def write_whole(path: str, text: str) -> None:
    """Write a file by way of a draft beside it; OSError leaves the old file and no draft."""
    draft = f"{path}.{os.getpid()}.part"
    try:
        with open(draft, "x", encoding="utf-8") as file:
            file.write(text)
        os.replace(draft, path)
    except OSError:
        with suppress(OSError):
            os.unlink(draft)
        raise
