"""Saves from S3, GCS, Azure or a folder: the newest that is whole, verified before it counts."""

import filecmp
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ramledger.durable_files import draft_of, sync_folder
from ramledger.errors import CheckpointError
from ramledger.replay.checkpoints import saves
from ramledger.replay.checkpoints.manifest import Block, Manifest
from ramledger.replay.checkpoints.private_folder import PrivateFolder
from ramledger.replay.checkpoints.saved_buffers import Save, described
from ramledger.replay.checkpoints.saving import Progress
from ramledger.replay.checkpoints.segment import SegmentReader
from ramledger.replay.upload.remote_store import (
    GoneError,
    RemoteStore,
    Upload,
    attempted,
    upload_numbers,
)

Check = Callable[[Path, Save], None]  # a folder with what came along with a save
DRAFTS = ".download-"  # begins the name of a folder of what is on its way
ROUNDS = 3  # so often a store may change while it is read


def download(
    url: str,
    folder: str | os.PathLike[str],
    *,
    extra: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    check: Check | None = None,
) -> int:
    """Fetch the newest whole save of a store into a folder; its number. Goes on if it broke.

    One that is not whole is passed over for the one before. Files that were uploaded with it go
    to the folder `extra`, if one is given; `check` raises CheckpointError if they are not whole.
    """
    remote, path = RemoteStore(url), Path(folder)
    target = _Target(path, Path(extra) if extra is not None else None, progress, check)
    lost: list[str] = []
    for _ in range(ROUNDS):
        there = remote.sizes()
        lost.clear()
        for found in remote.each(there):
            if isinstance(found, CheckpointError):
                lost.append(found.message)
                continue
            target.check_folder(found.manifest)
            try:
                _fetch(remote, found, there, target)
            except OSError as error:
                raise CheckpointError(
                    f"cannot write to {path}: {error.strerror}",
                    hint="free disk space or choose another folder; the next download continues",
                ) from None
            except _NotWholeError as error:
                lost.append(error.message)
                continue
            return found.manifest.number
        if upload_numbers(remote.sizes()) == upload_numbers(there):
            break
    raise CheckpointError(
        "; ".join([f"no intact checkpoint at {url}", *lost]), hint="check the address"
    )


class _NotWholeError(CheckpointError):
    """An upload that an earlier one may replace."""


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a save goes to."""

    folder: Path
    extra: Path | None
    progress: Progress | None
    check: Check | None

    def check_folder(self, manifest: Manifest) -> None:
        """What is in the folder is what this save continues from, or nothing."""
        there, newer = saves.read_all(self.folder)
        is_damaged = manifest.number in saves.numbers_in(self.folder) and not any(
            found.number == manifest.number for found in there
        )
        if newer or is_damaged or not all(map(manifest.continues_from, there)):
            raise CheckpointError(
                f"{self.folder} holds saves that save {manifest.number} does not continue from",
                hint="download into another folder: what is there is not overwritten",
            )


def _fetch(remote: RemoteStore, upload: Upload, there: dict[str, int], target: _Target) -> None:
    """Segments, what came along, and last the manifest."""
    manifest = upload.manifest
    blocks: dict[str, list[Block]] = {}
    for block in manifest.blocks:
        blocks.setdefault(block.segment, []).append(block)
    for name, found in blocks.items():
        end = max(part.offset + part.stored_bytes for b in found for part in b.parts)
        if there.get(upload.key_of(name), -1) < end:
            raise _NotWholeError(f"{upload.key_of(name)} is missing or cut off")
    extra = [key for key in sorted(there) if upload.is_extra(key)] if target.extra else []
    total = sum(there[upload.key_of(name)] for name in blocks) + sum(there[key] for key in extra)
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if target.progress is not None:
            target.progress(done, total)

    with PrivateFolder(target.folder, DRAFTS) as drafts:
        for name, found in sorted(blocks.items()):
            _fetch_segment(remote, upload.key_of(name), target.folder / name, drafts.path, found)
            advance(there[upload.key_of(name)])
    if target.extra is not None:
        _fetch_extra(remote, upload, extra, target)
        advance(sum(there[key] for key in extra))
    sync_folder(target.folder)
    saves.write_encoded(target.folder, manifest.number, upload.data)


def _fetch_segment(
    remote: RemoteStore, key: str, target: Path, drafts: Path, blocks: list[Block]
) -> None:
    with suppress(CheckpointError):
        _verify(target, target.name, blocks)
        return  # it came with an earlier save, or an earlier attempt
    draft = drafts / target.name
    with draft_of(target, draft) as file:
        _fetch_file(remote, key, file.fileno())
        _verify(draft, target.name, blocks)


def _verify(path: Path, name: str, blocks: list[Block]) -> None:
    reader = SegmentReader(path.parent)
    try:
        reader.read_from(name, path)
        for block in blocks:
            reader.verify(block)
    except CheckpointError as error:
        raise _NotWholeError(error.message) from None
    finally:
        reader.close()


def _fetch_file(remote: RemoteStore, key: str, fd: int) -> None:
    def get() -> None:
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        for chunk in remote.chunks(key):
            _write(fd, chunk)

    try:
        attempted(get, f"cannot fetch {key} from {remote.url}")
    except GoneError as error:
        raise _NotWholeError(error.message) from None


def _write(fd: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except OSError as error:  # of the disk here, which no further attempt would cure
            raise CheckpointError(
                f"cannot write the download: {error.strerror}",
                hint="free disk space or choose another folder; the next download continues",
            ) from None


def _fetch_extra(remote: RemoteStore, upload: Upload, keys: list[str], target: _Target) -> None:
    """Files that came along, checked together before each takes its place."""
    assert target.extra is not None
    with PrivateFolder(target.extra, DRAFTS) as private:
        drafts = private.path / "extra"
        drafts.mkdir()
        names = [key[len(upload.extra_prefix) :] for key in keys]
        for key, name in zip(keys, names, strict=True):
            with (drafts / name).open("xb") as file:
                _fetch_file(remote, key, file.fileno())
                os.fsync(file.fileno())
        if target.check is not None:
            try:
                target.check(drafts, described(upload.manifest))
            except CheckpointError as error:
                raise _NotWholeError(error.message) from None
        for name in names:
            _place(drafts / name, target.extra / name)
        sync_folder(target.extra)


def _place(draft: Path, target: Path) -> None:
    try:
        os.link(draft, target)
    except FileExistsError:
        if not target.is_file() or not filecmp.cmp(draft, target, shallow=False):
            raise CheckpointError(
                f"{target} exists with other content",
                hint="download into another folder: what is there is not overwritten",
            ) from None
    except OSError:  # a disk without links
        if target.exists():
            raise
        os.rename(draft, target)
