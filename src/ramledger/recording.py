"""The waist between the halves: a header, then one JSON line an event, append-only.

Every line is one `write`, so a killed writer leaves whole lines and at most one torn tail, which
readers drop with a note. What is read is checked by `event_codec`, so that readers meet nothing but
what `events` declares. The format: docs/recording.md.
"""

import errno
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Self, TypeVar

from ramledger.descriptors import OwnedDescriptor
from ramledger.errors import RecordingError
from ramledger.event_encoding import encode, encode_header, json_line
from ramledger.event_version_1 import upgraded
from ramledger.events import Event, Header, RunEndEvent
from ramledger.user_files import create, open_to_read

RECORDING_SCHEMA = "ramledger.recording/2"
READABLE_SCHEMAS = ("ramledger.recording/1", RECORDING_SCHEMA)
SUFFIX = ".ledger.jsonl"
MAX_LINE_BYTES = 4 << 20
DEFAULT_CAP_BYTES = 30_000_000
_READ_HINT = "give the path of a *.ledger.jsonl file"

Kind = TypeVar("Kind", bound=Event)


class RecordingWriter:
    """Appends events to a recording. Disk trouble ends the recording, never the training."""

    def __init__(
        self,
        path: str,
        header: Header,
        *,
        force: bool = False,
        cap_bytes: int = DEFAULT_CAP_BYTES,
    ) -> None:
        self.path = path
        self.trouble = ""  # why nothing more is written; '' while all is well
        self.written_bytes = 0
        self.dropped_events = 0
        self._cap_bytes = cap_bytes
        self._file: OwnedDescriptor | None = OwnedDescriptor(_create(path, force))
        self._place = os.path.abspath(path)  # a program may change its folder
        self._identity = _identity(self._file)
        whole = replace(header, schema=RECORDING_SCHEMA)
        if not self.write_encoded(encode_header(whole), vital=True):
            self.close()
            if not force:  # an empty file would be in the way of the next attempt
                os.unlink(path)
            raise RecordingError(
                f"cannot write {path}: {self.trouble or 'the header is too long'}",
                hint="choose another place with --out",
            )

    def write(self, event: Event, *, vital: bool = False) -> bool:
        """Append one event; False when it was not written. Past the cap only vital ones are."""
        return self.write_encoded(encode(event), vital=vital)

    def write_encoded(self, data: Mapping[str, Any], *, vital: bool = False) -> bool:
        """The same for an event that an agent has encoded."""
        if self._file is None or self.trouble:
            self.dropped_events += 1
            return False
        line = json_line(data)
        if not 0 < len(line) <= MAX_LINE_BYTES or (
            not vital and self.written_bytes + len(line) > self._cap_bytes
        ):
            self.dropped_events += 1
            return False
        return self._append(line)

    def _append(self, line: bytes) -> bool:
        try:
            file = self._open_file()
            written = os.write(file.fileno(), line)
            if written != len(line):  # a disk that filled up in the middle of a line
                os.ftruncate(file.fileno(), os.fstat(file.fileno()).st_size - written)
                raise OSError(28, "no space left on device")
        except OSError as error:
            self.trouble = error.strerror or str(error)
            self.dropped_events += 1
            return False
        self.written_bytes += len(line)
        return True

    def _open_file(self) -> OwnedDescriptor:
        """The file; opened again where the program that it is written in has closed it."""
        if self._file is None or not self._file.is_ours:
            number = os.open(self._place, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            self._file = OwnedDescriptor(number)
            if _identity(self._file) != self._identity:
                self._file.close()
                raise OSError(errno.ESTALE, "it was closed, and is another file by now")
        return self._file

    def sync(self) -> None:
        """Push what was written to the disk itself."""
        if self._file is not None and not self.trouble:
            try:
                os.fsync(self._open_file().fileno())
            except OSError as error:
                self.trouble = error.strerror or str(error)

    def close(self) -> None:
        """End the recording; may be called twice."""
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:  # network file systems report a full disk here
                self.trouble = self.trouble or error.strerror or str(error)
            self._file = None


def _identity(file: OwnedDescriptor) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino


def _create(path: str, force: bool) -> int:
    return create(path, force=force, error=RecordingError, hint="choose another place with --out")


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording read back: the header, all sound events in time order, and notes on damage."""

    path: str
    header: Header
    events: tuple[Event, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def is_complete(self) -> bool:
        """Whether the writer closed it."""
        return any(type(event) is RunEndEvent for event in self.events[-3:])

    def of_type(self, kind: type[Kind]) -> Iterator[Kind]:
        """Events of one type, in order."""
        return (event for event in self.events if type(event) is kind)

    @classmethod
    def read(cls, path: str) -> Self:
        """Read a recording; damage is noted, a foreign file is a RecordingError."""
        # not at the top: a writer beside a training needs no types
        from ramledger.event_codec import MalformedEventError, decode, decode_header

        header: Header | None = None
        events: list[Event] = []
        is_version_1 = False
        notes: list[str] = []
        damaged = malformed = 0
        for line, is_last in _lines(path):
            found = _parse(line)
            if header is None:
                first = _checked_header(path, found)
                header, malformed = decode_header(first)
                is_version_1 = first["schema"] == READABLE_SCHEMAS[0]
            elif found is None and is_last:
                notes.append("the last line is torn: the writer was killed while writing it")
            elif found is None:
                damaged += 1
            else:
                try:
                    event = decode(upgraded(found) if is_version_1 else found)
                except MalformedEventError:
                    malformed += 1
                    continue
                if event is not None:
                    events.append(event)
        if header is None:
            raise RecordingError(f"{path} is empty", hint="was the run killed before it began?")
        notes += _counted(damaged, "damaged line", "skipped")
        notes += _counted(malformed, "malformed event", "ignored")
        events.sort(key=_time_of)
        return cls(path, header, tuple(events), tuple(notes))


def _counted(number: int, noun: str, verb: str) -> list[str]:
    if not number:
        return []
    return [f"{number} {noun} was {verb}" if number == 1 else f"{number} {noun}s were {verb}"]


def _time_of(event: Event) -> float:
    """Clocks of several processes may have interleaved their lines."""
    return event.t


def _lines(path: str) -> Iterator[tuple[bytes, bool]]:
    try:
        with open_to_read(path, RecordingError, _READ_HINT) as file:
            # by itself: the rest of a foreign file, which may be huge, is not read for it
            if header := file.readline(MAX_LINE_BYTES + 1):
                yield header, False
            previous = b""
            while line := _whole_line(file):
                if previous:
                    yield previous, False
                previous = line
            if previous:
                yield previous, True
    except OSError as error:
        raise RecordingError(f"cannot read {path}: {error.strerror}", hint=_READ_HINT) from error


def _whole_line(file: BinaryIO) -> bytes:
    """The next line; of one that is too long, a few bytes that are no event."""
    line = file.readline(MAX_LINE_BYTES + 1)
    if len(line) <= MAX_LINE_BYTES:
        return line
    while line and not line.endswith(b"\n"):
        line = file.readline(MAX_LINE_BYTES + 1)
    return b"too long\n"


def _parse(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _checked_header(path: str, found: dict[str, Any] | None) -> dict[str, Any]:
    schema = found.get("schema") if found else None
    if not isinstance(schema, str) or not schema.startswith("ramledger.recording/"):
        raise RecordingError(
            f"{path} is not a ramledger recording",
            hint="recordings are written by `ramledger run` and end in .ledger.jsonl",
        )
    if schema not in READABLE_SCHEMAS:
        raise RecordingError(
            f"{path} has the format {schema}, this version reads {' and '.join(READABLE_SCHEMAS)}",
            hint="read it with a newer ramledger",
        )
    assert found is not None
    return found
