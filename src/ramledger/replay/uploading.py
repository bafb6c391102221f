"""Checkpoints to S3, GCS, Azure or a folder, and back: new segments first, the manifest last.

Credentials come from the environment, by each cloud's convention. Objects are immutable, so an
upload that broke goes on where it was, and whoever reads sees whole checkpoints only.
"""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramledger.errors import CheckpointError, ConfigError
from ramledger.replay import manifest as manifests
from ramledger.replay.job import Job
from ramledger.replay.manifest import Manifest
from ramledger.replay.saving import Progress

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PART_BYTES = 5 << 20  # the least that S3 takes as a part
PARTS_AT_A_TIME = 2  # memory: so many parts
ATTEMPTS = 5
_EXTRA = re.compile(r"extra-\d{8}/")
FIRST_PAUSE_SECONDS = 0.2


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
    """The newest save of a folder on its way to a store; cancelled, it goes on another time."""

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
            raise ConfigError(f"keep={keep}", hint="keep at least one save")
        self.url, self._folder, self._keep = url, Path(folder), keep
        self._overwrite, self._progress = overwrite, progress
        self._store = open_store(url)
        self._manifest = manifests.newest_manifest(self._folder)
        self._extra = _extra_names(extra, self._manifest.number)
        # links keep the files while later saves tidy up the folder; they take no space
        self._links = Path(tempfile.mkdtemp(prefix=".upload-", dir=self._folder))
        try:
            for name in (*self._manifest.segments, manifests.manifest_name(self._manifest.number)):
                os.link(self._folder / name, self._links / name)
            for name, path in self._extra.items():
                _link_or_copy(path, self._links / name)
        except OSError as error:
            shutil.rmtree(self._links, ignore_errors=True)
            what = error.filename or self._folder
            raise CheckpointError(f"cannot link {what}: {error.strerror}") from None

    def run(self) -> Uploaded:
        """Upload here and now."""
        try:
            self._result = self._upload()
            return self._result
        finally:
            shutil.rmtree(self._links, ignore_errors=True)

    def _upload(self) -> Uploaded:
        started = time.monotonic()
        there = _sizes(self._store)
        self._check_owner(there)
        names = (*self._manifest.segments, *self._extra)
        sizes = {name: (self._links / name).stat().st_size for name in names}
        # segments never change, and so their size tells; what else there is may have
        missing = [
            name for name in sorted(self._manifest.segments) if there.get(name) != sizes[name]
        ]
        missing += self._extra
        total, done = sum(sizes[name] for name in missing), 0
        for name in missing:
            self._put(name)
            done += sizes[name]
            if self._progress is not None:
                self._progress(done, total)
        last = manifests.manifest_name(self._manifest.number)
        self._put(last)
        self._tidy()
        return Uploaded(
            self.url, self._manifest.number, total + (self._links / last).stat().st_size,
            len(missing) + 1, len(sizes) - len(missing), time.monotonic() - started,
        )  # fmt: skip

    def _put(self, name: str) -> None:
        import obstore

        if self._cancelled.is_set():
            raise CheckpointError("the upload was cancelled", hint="the next one goes on from here")
        path = self._links / name
        is_large = path.stat().st_size > PART_BYTES

        def put() -> None:
            obstore.put(
                self._store, name, path, use_multipart=is_large, chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_A_TIME,
            )  # fmt: skip

        attempted(put, f"cannot upload {name} to {self.url}")

    def _check_owner(self, there: dict[str, int]) -> None:
        for number in _numbers(there):
            theirs = _read_manifest(self._store, number, self.url)
            if theirs is None:
                continue
            if theirs.buffer_id != self._manifest.buffer_id and not self._overwrite:
                raise CheckpointError(
                    f"{self.url} holds the checkpoint of another buffer",
                    hint="choose another place, or pass overwrite=True",
                )
            if theirs.number > self._manifest.number and not self._overwrite:
                raise CheckpointError(
                    f"{self.url} holds a later save, {theirs.number}",
                    hint="another run uploads there: choose another place",
                )
            if theirs.buffer_id != self._manifest.buffer_id:
                there.clear()  # names say nothing about the content of another buffer
            return

    def _tidy(self) -> None:
        """Remove saves beyond `keep`, and then the segments that only they needed."""
        import obstore

        there = _sizes(self._store)
        kept = [self._manifest]
        for number in _numbers(there):
            if number < self._manifest.number and len(kept) < self._keep:
                found = _read_manifest(self._store, number, self.url)
                if found is not None and found.buffer_id == self._manifest.buffer_id:
                    kept.append(found)
        needed = {manifests.manifest_name(manifest.number) for manifest in kept}
        needed |= {name for manifest in kept for name in manifest.segments}
        needed |= {name for m in kept for name in there if _is_extra_of(name, m.number)}
        unneeded = [name for name in there if _is_ours(name) and name not in needed]
        # manifests first: a reader never finds one whose segments are gone
        for name in sorted(unneeded, key=lambda found: manifests.number_of(found) is None):
            attempted(partial(obstore.delete, self._store, name), f"cannot remove {name}")


def upload(folder: str | os.PathLike[str], url: str, **options: Any) -> Uploaded:
    """Upload the newest save of a folder; only what is not there yet.

    `extra` are files that belong to this save, such as the weights: they are there before it
    counts, and go when it goes. `keep` saves stay; `overwrite` replaces another buffer's.
    """
    return UploadJob(folder, url, **options).run()


def upload_in_background(folder: str | os.PathLike[str], url: str, **options: Any) -> UploadJob:
    """The same while training goes on; `wait` for the result."""
    return UploadJob(folder, url, **options).start()


def download(
    url: str,
    folder: str | os.PathLike[str],
    *,
    extra: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> int:
    """Fetch the newest whole save of a store into a folder; its number. Goes on if it broke.

    Files that were uploaded with it go to the folder `extra`, if one is given.
    """
    store, path = open_store(url), Path(folder)
    there = _sizes(store)
    for number in _numbers(there):
        manifest = _read_manifest(store, number, url)
        if manifest is None or not manifest.segments <= there.keys():
            continue
        targets = {name: path / name for name in sorted(manifest.segments)}
        if extra is not None:
            beside = (name for name in sorted(there) if _is_extra_of(name, number))
            targets |= {name: Path(extra) / name.partition("/")[2] for name in beside}
        _fetch_all(store, targets, there, url, progress)
        manifests.write_manifest(path, manifest)
        return number
    raise CheckpointError(f"no whole checkpoint at {url}", hint="check the address")


def _fetch_all(
    store: "ObjectStore",
    targets: dict[str, Path],
    sizes: dict[str, int],
    url: str,
    progress: Progress | None,
) -> None:
    total, done = sum(sizes[name] for name in targets), 0
    for name, target in targets.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        _fetch(store, name, target, sizes[name], url)
        done += sizes[name]
        if progress is not None:
            progress(done, total)
    for folder in {target.parent for target in targets.values()}:
        manifests.sync_folder(folder)


def _fetch(store: "ObjectStore", name: str, target: Path, size: int, url: str) -> None:
    import obstore

    # a segment of this name and size is the same one
    if _is_segment(name) and target.exists() and target.stat().st_size == size:
        return
    draft = target.with_name(f"{target.name}.tmp")

    def get() -> None:
        with draft.open("wb") as file:
            for chunk in obstore.get(store, name):
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())

    attempted(get, f"cannot fetch {name} from {url}")
    os.replace(draft, target)


def open_store(url: str) -> "ObjectStore":
    """The store at an address: s3://, gs://, az://, file:// or a path."""
    try:
        from obstore.store import LocalStore, from_url
    except ImportError:
        raise ConfigError(
            "uploading needs obstore, which is not installed",
            hint="pip install 'ramledger[upload]'",
        ) from None
    try:
        if "://" not in url:
            return LocalStore(Path(url).resolve(), mkdir=True, automatic_cleanup=True)
        return from_url(url)
    except Exception as error:  # every store has errors of its own for a wrong address
        raise ConfigError(
            f"cannot open {url}: {_first_line(error)}",
            hint="write s3://bucket/path, gs://bucket/path, az://account/container or a folder",
        ) from None


def attempted(action: Callable[[], Any], what: str) -> Any:
    """Run `action`, again after growing pauses when the store does not answer."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return action()
        except Exception as error:  # obstore raises subclasses of Exception by cause and store
            if attempt == ATTEMPTS or isinstance(error, PermissionError | FileNotFoundError):
                raise CheckpointError(
                    f"{what}: {_first_line(error)}",
                    hint="check address and credentials; the next upload goes on from here",
                ) from None
            time.sleep(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
    return None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _sizes(store: "ObjectStore") -> dict[str, int]:
    import obstore

    def listed() -> dict[str, int]:
        pages: Iterable[Any] = obstore.list(store)
        return {str(entry["path"]): int(entry["size"]) for page in pages for entry in page}

    found: dict[str, int] = attempted(listed, "cannot list the store")
    return found


def _numbers(names: Iterable[str]) -> list[int]:
    found = (manifests.number_of(name) for name in names)
    return sorted((number for number in found if number is not None), reverse=True)


def _read_manifest(store: "ObjectStore", number: int, url: str) -> Manifest | None:
    """A manifest of a store; None if it is damaged."""
    import obstore

    name = manifests.manifest_name(number)
    data = attempted(lambda: bytes(obstore.get(store, name).bytes()), f"cannot read {name}")
    try:
        return Manifest.decoded(data, f"{url}/{name}")
    except CheckpointError:
        return None


def _is_ours(name: str) -> bool:
    is_extra = _EXTRA.match(name) is not None
    return is_extra or _is_segment(name) or manifests.number_of(name) is not None


def _is_segment(name: str) -> bool:
    return "/" not in name and name.endswith(manifests.SEGMENT_SUFFIX)


def _extra_folder(number: int) -> str:
    return f"extra-{number:08d}/"


def _is_extra_of(name: str, number: int) -> bool:
    return name.startswith(_extra_folder(number))


def _extra_names(paths: Iterable[str | os.PathLike[str]], number: int) -> dict[str, Path]:
    """What files that go with a save are called in the store."""
    given = [Path(path) for path in paths]
    found = {_extra_folder(number) + path.name: path for path in given}
    for path in given:
        if not path.is_file():
            raise ConfigError(f"{path} is no file", hint="`extra` takes files, not folders")
    if len(found) < len(given):
        raise ConfigError("two extra files of one name", hint="give them different names")
    return found


def _link_or_copy(path: Path, target: Path) -> None:
    """A link where that is possible: what replaces the file meanwhile does not matter."""
    target.parent.mkdir(exist_ok=True)
    try:
        os.link(path, target)
    except OSError:  # another disk, or one without links
        shutil.copyfile(path, target)
