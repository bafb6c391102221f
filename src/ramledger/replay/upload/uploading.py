"""Saves to S3, GCS, Azure or a folder: new segments first, the manifest last.

Objects are immutable and belong to one writer. So an interrupted upload continues where it was,
readers see only complete saves, and a save is accepted only if it continues from the newest.
"""

import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ramledger.durable_files import read_whole
from ramledger.errors import CheckpointError, ConfigError
from ramledger.replay.checkpoints import saves
from ramledger.replay.checkpoints.background_job import Job
from ramledger.replay.checkpoints.manifest import NewerFormatError
from ramledger.replay.checkpoints.manifest_check import check_files
from ramledger.replay.checkpoints.private_folder import PrivateFolder
from ramledger.replay.checkpoints.saving import Progress
from ramledger.replay.upload.remote_store import (
    RemoteStore,
    TakenError,
    Upload,
    continues_from,
    extra_prefix,
    is_of,
    segment_key,
    upload_numbers,
)

LINKS = ".upload-"  # begins the name of a folder that keeps what is on its way
TURNS = 5  # that others may come first where they are overwritten


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What an upload did."""

    url: str
    number: int
    uploaded_bytes: int
    uploaded_objects: int
    objects_there_before: int
    seconds: float


class UploadJob(Job[Uploaded]):
    """Uploads the newest save of a folder; if cancelled, the next one continues."""

    _thread_name = "ramledger-upload"

    def __init__(
        self,
        folder: str | os.PathLike[str],
        url: str,
        *,
        keep: int = 2,
        extra: Iterable[str | os.PathLike[str]] = (),
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> None:
        super().__init__()
        if keep < 1:
            raise ConfigError(f"keep must be at least 1, got {keep}")
        self.url, self._folder, self._keep = url, Path(folder), keep
        self._overwrite, self._progress = overwrite, progress
        self._remote = RemoteStore(url)
        self._manifest = saves.newest_manifest(self._folder)
        check_files(self._manifest, self._folder)
        self._data = read_whole(self._folder / saves.manifest_name(self._manifest.number))
        given = _extra_files(extra)
        # what is called how in the store, and where it is meanwhile
        self._segments = {segment_key(self._manifest, n): n for n in self._manifest.segments}
        self._extra = {extra_prefix(self._manifest) + name: name for name in given}
        self._sent_bytes = self._sent = 0
        # links keep the files while later saves tidy up the folder; they take no space
        self._links = PrivateFolder(self._folder, LINKS)
        self._beside = self._links.path / "extra"
        try:
            self._beside.mkdir()
            for name in self._segments.values():
                os.link(self._folder / name, self._links.path / name)
            for name, path in given.items():
                _link_or_copy(path, self._beside / name)
        except OSError as error:
            self._links.remove()
            what = error.filename or self._folder
            raise CheckpointError(
                f"cannot link {what}: {error.strerror}",
                hint="the folder must be writable, on a file system with hard links",
            ) from None

    def run(self) -> Uploaded:
        """Upload here and now."""
        try:
            self._result = self._upload()
            return self._result
        finally:
            self._links.remove()

    def _upload(self) -> Uploaded:
        started = time.monotonic()
        there = self._remote.sizes()
        is_there = self._check_line(there)
        missing = self._missing(there)
        before = len(self._segments) - len(missing)
        self._put_all(sorted(missing) + sorted(self._extra))
        if not is_there:
            self._commit()
        self._tidy()
        return Uploaded(
            self.url, self._manifest.number, self._sent_bytes, self._sent, before,
            time.monotonic() - started,
        )  # fmt: skip

    def _missing(self, there: dict[str, int]) -> list[str]:
        """Segments that are not there; names are unique, so the size tells."""
        return [key for key in self._segments if there.get(key) != self._path(key).stat().st_size]

    def _path(self, key: str) -> Path:
        if key in self._segments:
            return self._links.path / self._segments[key]
        return self._beside / self._extra[key]

    def _put_all(self, keys: list[str]) -> None:
        sizes = {key: self._path(key).stat().st_size for key in keys}
        total, done = sum(sizes.values()), 0
        for key, size in sizes.items():
            if self._cancelled.is_set():
                raise CheckpointError(
                    "the upload was cancelled", hint="the next one continues from here"
                )
            self._remote.put(key, self._path(key))
            self._sent += 1
            self._sent_bytes += size
            done += size
            if self._progress is not None:
                self._progress(done, total)

    # ---- whose turn it is ------------------------------------------------------------------

    def _newest(self, there: Iterable[str]) -> Upload | None:
        """The newest upload that can be read."""
        for found in self._remote.each(there):
            if isinstance(found, NewerFormatError) and not self._overwrite:
                raise found
            if isinstance(found, Upload):
                return found
        return None

    def _check_line(self, there: Iterable[str]) -> bool:
        """Whether this save is the newest there; an error if it does not continue that one."""
        newest = self._newest(there)
        if newest is None:
            return False
        theirs, ours = newest.manifest, self._manifest
        if theirs.line[-1] == ours.line[-1]:
            return not newest.is_legacy
        if self._overwrite or continues_from(ours, newest):
            return False
        if theirs.buffer_id != ours.buffer_id:
            raise CheckpointError(
                f"{self.url} holds the checkpoint of another buffer",
                hint="choose another place, or pass overwrite=True (train: --force)",
            )
        if theirs.continues_from(ours):
            raise CheckpointError(
                f"{self.url} holds a later save, {theirs.number}",
                hint="download that one and continue from it, or choose another place",
            )
        raise CheckpointError(
            f"{self.url} holds save {theirs.number} of another run that continued from the same "
            f"buffer: save {ours.number} does not continue from it",
            hint="download that one and continue from it, choose another place, or start a new "
            "line of saves there with overwrite=True (train: --force); the other's stay",
        )

    def _commit(self) -> None:
        """The manifest, as the upload after the newest, which it still has to continue from."""
        for _ in range(TURNS):
            there = self._remote.sizes()
            if self._check_line(there):
                return
            # another writer may have removed objects that existed when this began
            self._put_all(self._missing(there))
            number = max(upload_numbers(there), default=0) + 1
            try:
                self._remote.add(number, self._data)
            except TakenError:
                continue  # the next turn tells whether it continues from what came first
            self._sent += 1
            self._sent_bytes += len(self._data)
            return
        raise CheckpointError(
            f"other writers keep uploading to {self.url}", hint="choose another place"
        )

    # ---- what is not needed any more -------------------------------------------------------

    def _tidy(self) -> None:
        """Remove saves that this one continues from, beyond `keep`, and what only they needed."""
        there = self._remote.sizes()
        self._put_all(self._missing(there))
        ours: list[Upload] = []
        others: list[Upload] = []
        for found in self._remote.each(there):
            if isinstance(found, NewerFormatError):
                return  # it may need anything
            if isinstance(found, Upload):
                is_ours = continues_from(self._manifest, found)
                (ours if is_ours else others).append(found)
        kept, dropped = ours[: self._keep], ours[self._keep :]
        needed = _needed([*kept, *others], there)
        unneeded = {key for key in there if is_of(self._manifest, key)}
        unneeded |= _needed([old for old in dropped if old.is_legacy], there)
        if max(upload_numbers(self._remote.sizes()), default=0) != max(upload_numbers(there)):
            return  # another writer was faster, and may need what is not needed here
        # manifests first: a reader never finds one whose segments are gone
        names = {found.name for found in dropped} - {found.name for found in kept}
        for key in (*sorted(names), *sorted(unneeded & there.keys() - needed - names)):
            self._remote.delete(key)


def _needed(uploads: list[Upload], there: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for upload in uploads:
        found |= upload.keys
        found |= {key for key in there if upload.is_extra(key)}
    return found


def upload(folder: str | os.PathLike[str], url: str, **options: Any) -> Uploaded:
    """Upload the newest save of a folder; only what is not there yet.

    `extra` are files that belong to this save, such as the weights: they are uploaded before it
    counts, and removed with it. `keep` saves stay. A save that does not continue from the newest
    one there is refused; with `overwrite` it becomes the newest, and the others stay.
    """
    return UploadJob(folder, url, **options).run()


def upload_in_background(folder: str | os.PathLike[str], url: str, **options: Any) -> UploadJob:
    """Upload while training continues; `wait` for the result."""
    return UploadJob(folder, url, **options).start()


def _extra_files(paths: Iterable[str | os.PathLike[str]]) -> dict[str, Path]:
    """Files that go with a save, by name."""
    given = [Path(path) for path in paths]
    for path in given:
        if not path.is_file():
            raise ConfigError(f"{path} is not a file", hint="`extra` takes files, not folders")
    found = {path.name: path for path in given}
    if len(found) < len(given):
        raise ConfigError("two extra files have the same name", hint="give them different names")
    return found


def _link_or_copy(path: Path, target: Path) -> None:
    """A hard link if possible: it stays valid if the file is replaced meanwhile."""
    try:
        os.link(path, target)
    except OSError:  # another disk, or one without links
        shutil.copyfile(path, target)
