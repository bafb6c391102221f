"""Measured costs of imports, kept in the user's cache: bounded, written whole, never trusted.

A cache that is missing, broken or somebody else's is as good as none.
"""

import json
import os
import stat
import zlib
from contextlib import suppress
from typing import Any

from ramledger.errors import MeasureError
from ramledger.interpreter.loaded_packages import LoadedPackages
from ramledger.user_files import read_bytes, write_whole

MOST_FILES = 16
_MOST_BYTES = 4 << 20
_FORMAT = 1


def cache_folder() -> str:
    """Where tables are kept: `$XDG_CACHE_HOME/ramledger/imports`, in ~/.cache by default."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):
        home = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "ramledger", "imports")


def kept_document(loaded: LoadedPackages) -> Any:
    """The table for this interpreter and these libraries; None if there is none to be used."""
    key = _key(loaded)
    path = _path(key)
    try:
        if os.lstat(path).st_uid != os.geteuid():
            return None
        document = json.loads(read_bytes(path, _MOST_BYTES, MeasureError, ""))
        if document["key"] != key:
            return None
        os.utime(path)  # the one used longest ago goes first
        return document["table"]
    except (KeyError, TypeError, MeasureError, OSError, ValueError, RecursionError):
        return None


def keep_document(loaded: LoadedPackages, document: Any) -> None:
    """Keep a table; does nothing where it cannot be written."""
    key = _key(loaded)
    path = _path(key)
    data = json.dumps({"key": key, "table": document}).encode()
    if len(data) > _MOST_BYTES:
        return
    with suppress(MeasureError, OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        folder = os.lstat(os.path.dirname(path))
        if not stat.S_ISDIR(folder.st_mode) or folder.st_uid != os.geteuid():
            return
        write_whole(path, data, force=True, error=MeasureError, hint="")
        _drop_oldest(os.path.dirname(path))


def _drop_oldest(folder: str) -> None:
    with os.scandir(folder) as found:
        files = sorted(found, key=lambda file: -file.stat(follow_symlinks=False).st_mtime_ns)
    for file in files[MOST_FILES:]:
        with suppress(OSError):
            os.unlink(file.path)


def _path(key: str) -> str:
    return os.path.join(cache_folder(), f"{zlib.crc32(key.encode()):08x}.json")


def _key(loaded: LoadedPackages) -> str:
    """All that costs depend on: interpreter, platform, libraries and their versions."""
    libraries = [
        [package, version, _on_disk(package, loaded.sites)]
        for package, version in sorted(loaded.versions.items())
    ]
    system = [*os.uname()[:1], *os.uname()[2:]]
    return json.dumps([_FORMAT, loaded.executable, loaded.python, system, libraries])


def _on_disk(package: str, sites: tuple[str, ...]) -> list[Any]:
    """Where a package lies and when it was written, so that a reinstalled one is measured anew."""
    for site in sites:
        for path in (f"{site}/{package}/__init__.py", f"{site}/{package}", f"{site}/{package}.py"):
            with suppress(OSError):
                found = os.stat(path)
                return [path, found.st_mtime_ns, found.st_size]
    return []
