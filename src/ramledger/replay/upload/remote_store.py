"""The store that saves are uploaded to: S3, GCS, Azure or a folder, with the same names.

`uploads/00000007.json` is the seventh upload: a manifest, created and never replaced, so of two
writers one gets the number. Segments and other files have names that only one writer makes.
Credentials come from the environment, by each cloud's convention.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ramledger.errors import CheckpointError, ConfigError
from ramledger.replay.checkpoints.manifest import HEAD_BYTES, LEGACY, Manifest, NewerFormatError
from ramledger.replay.checkpoints.saves import checked_manifest, number_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PART_BYTES = 5 << 20  # the least that S3 takes as a part
PARTS_AT_A_TIME = 2  # memory: so many parts
ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 0.2
FORMAT = "ramledger.upload/1"
_UPLOAD = re.compile(r"uploads/([0-9]{8})\.json")
_SEGMENT = re.compile(r"segments/([0-9]{8})-([0-9a-f]{16})-[0-9]{4,9}\.seg")
_LEGACY_SEGMENT = re.compile(r"segments/(legacy-[0-9a-f]{16})/[0-9]{8}-[0-9]{4,9}\.seg")
_EXTRA = re.compile(r"extra/([0-9]{8})-((?:legacy-)?[0-9a-f]{16})/([^/]+)")


class GoneError(CheckpointError):
    """An object that is not there, or not any more."""


class TakenError(CheckpointError):
    """Another writer has already made the upload of that number."""


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload, or a save of the first format, which has the number 0."""

    number: int
    manifest: Manifest
    data: bytes  # of the manifest

    @property
    def is_legacy(self) -> bool:
        return self.number == 0

    @property
    def name(self) -> str:
        number = self.manifest.number
        return f"save-{number:08d}.json" if self.is_legacy else upload_name(self.number)

    def key_of(self, segment: str) -> str:
        return segment if self.is_legacy else segment_key(self.manifest, segment)

    @property
    def keys(self) -> set[str]:
        return {self.key_of(segment) for segment in self.manifest.segments}

    def is_extra(self, key: str) -> bool:
        return key.startswith(self.extra_prefix) and "/" not in key[len(self.extra_prefix) :]

    @property
    def extra_prefix(self) -> str:
        number = self.manifest.number
        return f"extra-{number:08d}/" if self.is_legacy else extra_prefix(self.manifest)


class _Head(msgspec.Struct):
    format: str
    upload: int


def upload_name(number: int) -> str:
    return f"uploads/{number:08d}.json"


def segment_key(manifest: Manifest, segment: str) -> str:
    """Where a segment of a save is. Names of the first format are unique within a line only."""
    if segment.count("-") == 2:
        return f"segments/{segment}"
    line = manifest.legacy_line
    if line is None:
        raise CheckpointError(
            f"{segment} belongs to no save that this one continues from", hint="save it again"
        )
    return f"segments/{line[0]}/{segment}"


def extra_prefix(manifest: Manifest) -> str:
    return f"extra/{manifest.number:08d}-{manifest.lineage}/"


def is_of(manifest: Manifest, key: str) -> bool:
    """Whether an object was made for a save that this one is or continues from."""
    lines = manifest.line
    found = _SEGMENT.fullmatch(key) or _EXTRA.fullmatch(key)
    if found is not None:
        number, lineage = int(found[1]), found[2]
        return any(lineage == name and number <= last for name, last in lines)
    legacy = _LEGACY_SEGMENT.fullmatch(key)
    return legacy is not None and any(legacy[1] == name for name, _ in lines)


def continues_from(manifest: Manifest, upload: Upload) -> bool:
    """Whether a save is that upload, or comes from it.

    Saves of the first format tell no more than their buffer and number.
    """
    other = upload.manifest
    if manifest.continues_from(other):
        return True
    line = manifest.legacy_line
    is_legacy = other.lineage.startswith(LEGACY) and line is not None
    return (
        is_legacy
        and line is not None
        and other.buffer_id == manifest.buffer_id
        and other.number < line[1]
    )


class RemoteStore:
    """Operations on a store; each is retried after growing pauses if it fails."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._store = open_store(url)

    def sizes(self) -> dict[str, int]:
        """Size in bytes of everything that is there."""
        import obstore

        def listed() -> dict[str, int]:
            pages: Iterable[Any] = obstore.list(self._store)
            return {str(entry["path"]): int(entry["size"]) for page in pages for entry in page}

        found: dict[str, int] = attempted(listed, f"cannot list {self.url}")
        return found

    def read(self, name: str) -> bytes:
        import obstore

        what = f"cannot read {name} from {self.url}"
        found: bytes = attempted(lambda: bytes(obstore.get(self._store, name).bytes()), what)
        return found

    def chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of an object, piece by piece."""
        import obstore

        for chunk in obstore.get(self._store, name):
            yield bytes(chunk)

    def put(self, name: str, path: Path) -> None:
        """A file, whole or not at all."""
        import obstore

        is_large = path.stat().st_size > PART_BYTES

        def put() -> None:
            obstore.put(
                self._store, name, path, use_multipart=is_large, chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_A_TIME,
            )  # fmt: skip

        attempted(put, f"cannot upload {name} to {self.url}")

    def create(self, name: str, data: bytes) -> None:
        """Create an object; TakenError if it exists with other content."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

        def create() -> None:
            try:
                obstore.put(self._store, name, data, mode="create")
            except (AlreadyExistsError, PreconditionError):
                return  # by an earlier attempt or by another writer: its content is compared below
            except (NotSupportedError, NotImplementedError):
                if name not in self.sizes():
                    obstore.put(self._store, name, data)

        attempted(create, f"cannot upload {name} to {self.url}")
        # a store without conditional writes may have let another writer replace it
        if self.read(name) != data:
            raise TakenError(
                f"another machine has uploaded to {self.url} at the same time",
                hint="use one place per run: choose another one",
            )

    def delete(self, name: str) -> None:
        import obstore

        def delete() -> None:
            try:
                obstore.delete(self._store, name)
            except FileNotFoundError:
                return

        attempted(delete, f"cannot remove {name} from {self.url}")

    # ---- uploads ---------------------------------------------------------------------------

    def add(self, number: int, manifest: bytes) -> None:
        """Upload `number`: after this it is the newest. TakenError if another writer did it."""
        head = {"format": FORMAT, "upload": number}
        self.create(upload_name(number), msgspec.json.encode(head) + b"\n" + manifest)

    def upload(self, number: int) -> Upload:
        """One upload; an error if it is damaged."""
        name = upload_name(number)
        head, _, data = self.read(name).partition(b"\n")
        try:
            found = msgspec.json.decode(head[:HEAD_BYTES], type=_Head)
        except (ValueError, RecursionError):
            found = _Head("", 0)
        if found.format.startswith("ramledger.upload/") and found.format != FORMAT:
            raise NewerFormatError(
                f"{self.url}/{name} was uploaded by another version of ramledger",
                hint="use that version",
            )
        if (found.format, found.upload) != (FORMAT, number):
            raise CheckpointError(
                f"{self.url}/{name} is damaged", hint="an earlier one may be intact"
            )
        return Upload(number, checked_manifest(data, f"{self.url}/{name}"), data)

    def legacy(self, number: int) -> Upload:
        """A save that was uploaded by the first version."""
        name = f"save-{number:08d}.json"
        data = self.read(name)
        return Upload(0, checked_manifest(data, f"{self.url}/{name}", number), data)

    def each(self, names: Iterable[str]) -> Iterator["Upload | CheckpointError"]:
        """All uploads, newest first, or what is wrong with one."""
        given = list(names)
        legacy = (found for found in map(number_of, given) if found is not None)
        for read, numbers in ((self.upload, upload_numbers(given)), (self.legacy, legacy)):
            for number in sorted(numbers, reverse=True):
                try:
                    yield read(number)
                except CheckpointError as error:
                    yield error


def upload_numbers(names: Iterable[str]) -> list[int]:
    """Numbers of the uploads among the objects of a store, newest first."""
    return sorted((int(m[1]) for m in map(_UPLOAD.fullmatch, names) if m), reverse=True)


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
            hint="write s3://bucket/path, gs://bucket/path, az://container/path or a folder",
        ) from None


def attempted(action: Callable[[], Any], what: str) -> Any:
    """Run `action`, and retry after growing pauses.

    Not obstore's own retries: those leave out writes that time out, and local folders.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return action()
        except CheckpointError:
            raise
        except FileNotFoundError as error:
            raise GoneError(
                f"{what}: {_first_line(error)}",
                hint="another process may have removed it: try again",
            ) from None
        except Exception as error:  # obstore raises subclasses of Exception by cause and store
            if attempt == ATTEMPTS or isinstance(error, PermissionError):
                raise CheckpointError(
                    f"{what}: {_first_line(error)}",
                    hint="check address and credentials; the next upload continues from here",
                ) from None
            time.sleep(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
    return None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
