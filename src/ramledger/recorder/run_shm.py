"""What a run holds in /dev/shm, which all programs of a machine share.

A file belongs to others when they map it, when another user owns it, or when it was there before
and none of the run's processes maps it. What nobody maps any more and came during the run counts,
segments that are never unlinked; unless others are seen to map segments and the run never is.
Of files without a name, what the run's processes have mapped.
"""

import os
import re
import stat
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice

from ramledger.errors import MeasureError
from ramledger.measure import proc
from ramledger.measure.children_and_shm import SHM, used_bytes
from ramledger.time_share import Governor

_WORTH_BYTES = 256 * 1024
_SEARCH_SHARE = 0.004  # of the time at most, to find who maps new files
_SEARCH_CREDIT_SECONDS = 0.5
_MOST_FILES = 2_000
_BLOCK_BYTES = 512  # unit of st_blocks: stat(2)
_SEGMENT = re.compile(rb" /dev/shm/(?!sem\.)")  # semaphores are files there, too: sem_overview(7)


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    inode: int
    owner_id: int
    bytes: int


class Maker(Enum):
    """Whose a file is; UNKNOWN: nobody maps it any more."""

    RUN = auto()
    OTHERS = auto()
    UNKNOWN = auto()


class RunSharedMemory:
    """Follows /dev/shm for one run."""

    def __init__(self, directory: str = SHM) -> None:
        self._directory = directory
        self._maker: dict[int, Maker] = {}  # by inode
        self._we_map = self._others_map = False  # segments, as far as was seen
        self._search = Governor(_SEARCH_SHARE, credit=_SEARCH_CREDIT_SECONDS)
        self._is_first = True

    def size_bytes(self, pids: Collection[int], mapped_bytes: int) -> int:
        """What is the run's own of it; `mapped_bytes`: RssShmem of its processes, added up."""
        files = [file for file in self._files() if file.bytes >= _WORTH_BYTES]
        self._we_map = self._we_map or mapped_bytes >= _WORTH_BYTES
        unknown = [file for file in files if file.inode not in self._maker]
        if unknown and (self._is_first or self._search.allows()):
            began = time.thread_time()
            self._sort_out(unknown, set(pids))
            self._search.spend(time.thread_time() - began)
        self._is_first = False
        alive = {file.inode for file in files}
        self._maker = {inode: maker for inode, maker in self._maker.items() if inode in alive}
        named = sum(file.bytes for file in files)
        ours = sum(file.bytes for file in files if self._is_ours(file))
        nameless = max(0, used_bytes(self._directory) - named)
        return ours + min(nameless, max(0, mapped_bytes - ours))

    def _is_ours(self, file: _File) -> bool:
        maker = self._maker.get(file.inode, Maker.UNKNOWN)
        if maker is Maker.UNKNOWN:
            return self._we_map or not self._others_map
        return maker is Maker.RUN

    def _files(self) -> list[_File]:
        """Files there and in folders below, by their path from there."""
        found: list[_File] = []
        folders = [""]
        while folders and len(found) < _MOST_FILES:
            below = folders.pop()
            with suppress(OSError), os.scandir(os.path.join(self._directory, below)) as entries:
                for entry in islice(entries, _MOST_FILES - len(found)):
                    name = os.path.join(below, entry.name)
                    with suppress(OSError):
                        facts = entry.stat(follow_symlinks=False)
                        if stat.S_ISDIR(facts.st_mode):
                            folders.append(name)
                            continue
                        size = facts.st_blocks * _BLOCK_BYTES
                        found.append(_File(name, facts.st_ino, facts.st_uid, size))
        return found

    def _sort_out(self, files: list[_File], pids: set[int]) -> None:
        paths = {f"{self._directory}/{file.name}".encode(): file for file in files}
        ours, _ = _mapped(paths.keys(), pids)
        left = paths.keys() - ours
        # root sees everybody's processes; others see their own, and others' files by their owner
        theirs: set[bytes] = set()
        if left:
            theirs, maps_some = _mapped(left, set(proc.process_ids()) - pids)
            self._others_map = self._others_map or maps_some
        for path, file in paths.items():
            is_foreign = path in theirs or self._is_first or file.owner_id != os.geteuid()
            maker = Maker.OTHERS if is_foreign else Maker.UNKNOWN
            self._maker[file.inode] = Maker.RUN if path in ours else maker


def _mapped(paths: Collection[bytes], pids: Iterable[int]) -> tuple[set[bytes], bool]:
    """Those of these files that the processes map, and whether they map any."""
    found: set[bytes] = set()
    maps_some = False
    for pid in pids:
        with suppress(MeasureError):
            maps = proc.read_bytes(pid, "maps")
            if _SEGMENT.search(maps):
                maps_some = True
                found |= {path for path in paths if b" " + path + b"\n" in maps}
    return found, maps_some
