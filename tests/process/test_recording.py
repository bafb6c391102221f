"""Recordings under damage: killed writers, full disks, foreign files, clocks that jump."""

import json
import mmap
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ramledger.errors import RecordingError
from ramledger.event_encoding import encode, encode_header, json_line
from ramledger.events import Event, Header, NoteEvent, RunEndEvent
from ramledger.recording import MAX_LINE_BYTES, RECORDING_SCHEMA, Recording, RecordingWriter

HEADER = Header(command=("python", "train.py"), started_at=1.0)
HEADER_LINE = json_line(encode_header(replace(HEADER, schema=RECORDING_SCHEMA)))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run.ledger.jsonl")


def noted(number: int, text: str = "", t: float | None = None) -> NoteEvent:
    return NoteEvent(t=float(number) if t is None else t, pid=number, text=text)


def line_of(event: Event) -> bytes:
    return json_line(encode(event))


def written(path: str, *events: Event, **options: Any) -> RecordingWriter:
    writer = RecordingWriter(path, HEADER, **options)
    for event in events:
        writer.write(event)
    writer.close()
    return writer


def numbers(found: Recording) -> list[int]:
    return [event.pid for event in found.of_type(NoteEvent)]


class TestWriting:
    def test_what_is_written_is_read(self, path: str) -> None:
        events = (noted(0), noted(1, text="größer\n"), RunEndEvent(t=2.0, exit_code=0))
        writer = written(path, *events)
        found = Recording.read(path)
        assert found.events == events
        assert found.header.command == HEADER.command
        assert (found.notes, found.is_complete, found.path) == ((), True, path)
        assert writer.written_bytes == os.path.getsize(path)
        assert (writer.dropped_events, writer.trouble) == (0, "")

    def test_every_event_is_one_line_of_plain_json(self, path: str) -> None:
        text: Any = Path("/x")
        odd = noted(0, text="a\u2028b\x00\ud800"), noted(2, text=text)
        written(path, odd[0], RunEndEvent(t=1.0, cost_seconds=float("inf")), odd[1])
        lines = Path(path).read_bytes().split(b"\n")
        assert len(lines) == 5 and lines[-1] == b""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is no JSON")

        for line in lines[:-1]:
            json.loads(line, parse_constant=refuse)
        assert Recording.read(path).events == (odd[0], RunEndEvent(t=1.0), noted(2, text="/x"))

    def test_an_event_that_is_no_data_is_dropped_alone(self, path: str) -> None:
        circle: dict[str, Any] = {"event": "note", "t": 0.0}
        circle["self"] = circle
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        writer = RecordingWriter(path, HEADER)
        assert not writer.write_encoded(circle)
        assert not writer.write_encoded({"t": 0.0, ("a", "b"): 1})  # type: ignore[dict-item]
        assert not writer.write_encoded({"t": 0.0, "deep": deep})
        assert writer.write(noted(1))
        writer.close()
        assert (writer.dropped_events, writer.trouble) == (3, "")
        assert numbers(Recording.read(path)) == [1]

    def test_after_the_end_nothing_is_written(self, path: str) -> None:
        writer = written(path, noted(0))
        writer.close()
        writer.sync()
        assert not writer.write(noted(1), vital=True)
        assert writer.dropped_events == 1
        assert numbers(Recording.read(path)) == [0]

    def test_it_does_not_leak_into_children(self, path: str) -> None:
        writer = RecordingWriter(path, HEADER)
        code = "import os; print(*[os.readlink(f'/proc/self/fd/{n}') for n in range(3, 9)"
        code += " if os.path.exists(f'/proc/self/fd/{n}')])"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, close_fds=False
        )
        writer.close()
        assert done.returncode == 0
        assert path not in done.stdout


class TestBounds:
    def test_the_cap_is_kept(self, path: str) -> None:
        writer = RecordingWriter(path, HEADER, cap_bytes=10_000)
        kept = [number for number in range(500) if writer.write(noted(number, text="x" * 50))]
        assert 0 < len(kept) < 500
        assert os.path.getsize(path) == writer.written_bytes <= 10_000
        assert writer.dropped_events == 500 - len(kept)
        assert writer.trouble == ""
        assert writer.write(RunEndEvent(t=500.0, exit_code=0), vital=True)
        writer.close()
        found = Recording.read(path)
        assert numbers(found) == kept
        assert found.is_complete

    def test_the_header_is_written_even_over_the_cap(self, path: str) -> None:
        writer = RecordingWriter(path, HEADER, cap_bytes=10)
        assert not writer.write(noted(0))
        assert writer.write(noted(1), vital=True)
        writer.close()
        assert numbers(Recording.read(path)) == [1]

    def test_a_gigantic_event_is_not_written(self, path: str) -> None:
        writer = RecordingWriter(path, HEADER, cap_bytes=1 << 40)
        assert not writer.write(noted(0, text="x" * MAX_LINE_BYTES), vital=True)
        assert writer.write(noted(1, text="x" * (MAX_LINE_BYTES - 100)))
        writer.close()
        assert writer.dropped_events == 1
        assert numbers(Recording.read(path)) == [1]

    def test_a_gigantic_header_is_refused_and_leaves_nothing(self, path: str) -> None:
        with pytest.raises(RecordingError, match="header is too long"):
            RecordingWriter(path, Header(command=("x" * MAX_LINE_BYTES,)))
        assert not os.path.exists(path)


class TestPlaces:
    def test_an_existing_file_is_not_overwritten(self, path: str) -> None:
        written(path, noted(0))
        before = Path(path).read_bytes()
        with pytest.raises(RecordingError, match="exists already") as caught:
            RecordingWriter(path, HEADER)
        assert "--force" in caught.value.hint
        assert Path(path).read_bytes() == before
        written(path, noted(7), force=True)
        assert numbers(Recording.read(path)) == [7]

    def test_a_folder_that_does_not_exist(self, tmp_path: Path) -> None:
        with pytest.raises(RecordingError, match="No such file or directory") as caught:
            RecordingWriter(str(tmp_path / "no" / "run.ledger.jsonl"), HEADER)
        assert "--out" in caught.value.hint

    def test_a_folder_in_its_place(self, tmp_path: Path) -> None:
        for force in (False, True):
            with pytest.raises(RecordingError):
                RecordingWriter(str(tmp_path), HEADER, force=force)
        with pytest.raises(RecordingError, match="it is a directory"):
            Recording.read(str(tmp_path))

    def test_a_read_only_folder(self, tmp_path: Path) -> None:
        with (
            mounted(tmp_path / "fixed", "ro") as folder,
            pytest.raises(RecordingError, match="Read-only file system"),
        ):
            RecordingWriter(str(folder / "run.ledger.jsonl"), HEADER)

    def test_a_folder_of_another_user(self, tmp_path: Path) -> None:
        folder = tmp_path / "closed"
        folder.mkdir(mode=0o500)
        if os.access(folder, os.W_OK):
            pytest.skip("root may write everywhere")
        with pytest.raises(RecordingError, match="Permission denied"):
            RecordingWriter(str(folder / "run.ledger.jsonl"), HEADER)


class mounted:
    """A file system in memory, mounted for a test; skips where that is not permitted."""

    def __init__(self, folder: Path, options: str) -> None:
        self.folder, self.options = folder, options

    def __enter__(self) -> Path:
        self.folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", self.options, "tmpfs", str(self.folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("no mount command")
        if done.returncode:
            pytest.skip(f"cannot mount here: {done.stderr.strip()}")
        return self.folder

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", str(self.folder)], check=True)


class TestFullDisks:
    def test_a_disk_that_is_full_from_the_beginning(self, tmp_path: Path) -> None:
        with mounted(tmp_path / "tiny", "size=4k") as folder:
            (folder / "rest").write_bytes(b"x" * 4096)
            with pytest.raises(RecordingError, match="No space left on device"):
                RecordingWriter(str(folder / "run.ledger.jsonl"), HEADER)
            assert [path.name for path in folder.iterdir()] == ["rest"]

    @pytest.mark.parametrize("size", [120, 9_000, 70_000], ids=["small", "pages", "large"])
    def test_a_disk_that_fills_up(self, tmp_path: Path, size: int) -> None:
        """Whole lines stay, the writer says why it stopped, and nothing is raised."""
        with mounted(tmp_path / "tiny", "size=1m") as folder:
            path = str(folder / "run.ledger.jsonl")
            writer = RecordingWriter(path, HEADER)
            kept = [n for n in range(20_000) if writer.write(noted(n, text="x" * size))]
            self.check_trouble(writer, path, kept, "no space left on device")

    def test_a_file_size_limit_in_the_middle_of_a_line(self, path: str) -> None:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        writer = RecordingWriter(path, HEADER)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_001, before[1]))
            kept = [n for n in range(100) if writer.write(noted(n, text="x" * 3_000))]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        self.check_trouble(writer, path, kept, "")

    @staticmethod
    def check_trouble(writer: RecordingWriter, path: str, kept: list[int], reason: str) -> None:
        assert writer.trouble.lower().startswith(reason) and writer.trouble
        assert not writer.write(RunEndEvent(t=1e9), vital=True)
        writer.sync()
        writer.close()
        assert kept == list(range(len(kept))) and kept
        assert Path(path).read_bytes().endswith(b"\n")
        assert os.path.getsize(path) == writer.written_bytes
        found = Recording.read(path)
        assert (numbers(found), found.notes) == (kept, ())


class TestReading:
    def test_a_torn_tail(self, path: str) -> None:
        written(path, noted(0), noted(1))
        with open(path, "ab") as file:
            file.write(b'{"event":"note","t":2.0,"numb')
        found = Recording.read(path)
        assert numbers(found) == [0, 1]
        assert found.notes == ("the last line is torn: the writer was killed while writing it",)
        assert not found.is_complete

    def test_damage_in_the_middle(self, path: str) -> None:
        written(path, noted(0))
        with open(path, "ab") as file:
            file.write(
                b'garbage\n\xff\xfe\n\n[1,2]\n{"t":1}\n{"event":5}\n' + b"[" * 100_000 + b"\n"
            )
            file.write(line_of(noted(1)))
        found = Recording.read(path)
        assert numbers(found) == [0, 1]
        assert found.notes == ("5 damaged lines were skipped", "2 malformed events were ignored")

    def test_a_gigantic_line_in_the_middle(self, path: str) -> None:
        """Its end would be an event by itself, and it is not one."""
        written(path, noted(0))
        end = line_of(noted(5))
        for length in (MAX_LINE_BYTES + 1, 2 * (MAX_LINE_BYTES + 1), 3 * MAX_LINE_BYTES):
            with open(path, "ab") as file:
                file.write(b"x" * length + end)
        with open(path, "ab") as file:
            file.write(line_of(noted(1)))
        found = Recording.read(path)
        assert numbers(found) == [0, 1]
        assert found.notes == ("3 damaged lines were skipped",)

    def test_a_gigantic_last_line_without_an_end(self, path: str) -> None:
        written(path, noted(0))
        with open(path, "ab") as file:
            file.write(b"x" * (2 * MAX_LINE_BYTES))
        found = Recording.read(path)
        assert numbers(found) == [0]
        assert len(found.notes) == 1

    def test_unknown_events_and_fields_are_ignored(self, path: str) -> None:
        known = {**encode(noted(1)), "more": {"deep": [1]}}
        unknown = {"event": "from the future", "t": 0.0}
        Path(path).write_bytes(HEADER_LINE + json_line(unknown) + json_line(known))
        found = Recording.read(path)
        assert found.events == (noted(1),)
        assert found.notes == ()

    def test_lines_that_came_through_another_system(self, path: str) -> None:
        written(path, noted(0), noted(1))
        data = Path(path).read_bytes().replace(b"\n", b"\r\n")
        Path(path).write_bytes(data)
        assert numbers(Recording.read(path)) == [0, 1]

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "is empty"),
            (b"\n", "is not a ramledger recording"),
            (HEADER_LINE[:-1], "is not a ramledger recording"),
            (HEADER_LINE[:30], "is not a ramledger recording"),
            (b'{"schema": "ramledger.statement/1"}\n', "is not a ramledger recording"),
            (b'{"schema": 7}\n', "is not a ramledger recording"),
            (b"[]\n", "is not a ramledger recording"),
            (b"null\n", "is not a ramledger recording"),
            (b"a,b,c\n1,2,3\n", "is not a ramledger recording"),
            (b"\x7fELF\x02\x01\x01" + bytes(5000), "is not a ramledger recording"),
            (bytes(3 * MAX_LINE_BYTES), "is not a ramledger recording"),
            (b"[" * (2 * MAX_LINE_BYTES), "is not a ramledger recording"),
        ],
        ids=lambda value: repr(value[:12]),
    )
    def test_foreign_files(self, path: str, content: bytes, said: str) -> None:
        Path(path).write_bytes(content)
        with pytest.raises(RecordingError, match=said) as caught:
            Recording.read(path)
        assert path in caught.value.message
        assert caught.value.hint

    def test_a_device_without_an_end_is_refused(self) -> None:
        with pytest.raises(RecordingError, match="it is a device"):
            Recording.read("/dev/zero")

    def test_a_version_from_the_future(self, path: str) -> None:
        Path(path).write_bytes(HEADER_LINE.replace(b"recording/2", b"recording/3"))
        with pytest.raises(RecordingError, match=r"ramledger\.recording/3") as caught:
            Recording.read(path)
        assert "newer" in caught.value.hint

    def test_a_file_that_is_not_there(self, path: str) -> None:
        with pytest.raises(RecordingError, match="No such file"):
            Recording.read(path)


class TestTime:
    def test_a_clock_that_goes_backwards(self, path: str) -> None:
        times = [0.0, 5.0, 4.0, 6.0, 5.5]
        written(path, *(noted(n, t=t) for n, t in enumerate(times)))
        assert numbers(Recording.read(path)) == [0, 2, 1, 4, 3]

    def test_events_of_one_moment_stay_in_order(self, path: str) -> None:
        written(path, *(noted(n, t=1.0) for n in range(50)))
        assert numbers(Recording.read(path)) == list(range(50))

    @pytest.mark.parametrize("t", ['"soon"', "null", "NaN", "Infinity", "1e999", "9" * 400, "[]"])
    def test_a_time_that_is_none(self, path: str, t: str) -> None:
        line = f'{{"event":"note","t":{t},"pid":1,"text":""}}\n'.encode()
        Path(path).write_bytes(HEADER_LINE + line + line_of(noted(2)))
        found = Recording.read(path)
        assert numbers(found) == [2]
        assert found.notes == ("1 malformed event was ignored",)

    def test_the_end_is_seen_although_late_events_follow(self, path: str) -> None:
        written(path, noted(0), RunEndEvent(t=3.0, exit_code=0), noted(4, t=3.5))
        assert Recording.read(path).is_complete


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.text(), max_size=8), st.data())
def test_cut_anywhere_all_whole_lines_are_read(
    tmp_path: Path, texts: list[str], data: st.DataObject
) -> None:
    path = str(tmp_path / "cut.ledger.jsonl")
    written(path, *(noted(n, text) for n, text in enumerate(texts)), force=True)
    whole = Path(path).read_bytes()
    cut = data.draw(st.integers(whole.index(b"\n") + 1, len(whole)))
    Path(path).write_bytes(whole[:cut])
    found = Recording.read(path)
    assert numbers(found) == list(range(whole[:cut].count(b"\n") - 1))
    assert bool(found.notes) == (not whole[:cut].endswith(b"\n"))


WRITER = """
import mmap, random, struct, sys
from ramledger.events import Header, NoteEvent
from ramledger.recording import RecordingWriter
with open(sys.argv[2], "r+b") as file:
    done = mmap.mmap(file.fileno(), 8)
sizes = random.Random(int(sys.argv[3]))
writer = RecordingWriter(sys.argv[1], Header(), cap_bytes=1 << 40)
print("ready", flush=True)
number = 0
while True:
    size = sizes.choice([10, 100, 5_000, 200_000, 2_000_000])
    assert writer.write(NoteEvent(t=float(number), pid=number, text="x" * size))
    number += 1
    done[:8] = struct.pack("q", number)
"""


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[mmap.mmap]:
    counter = tmp_path / "counter"
    counter.write_bytes(bytes(8))
    with counter.open("r+b") as file, mmap.mmap(file.fileno(), 8) as shared:
        yield shared


def test_killed_at_any_moment_no_complete_line_is_lost(tmp_path: Path, writing: mmap.mmap) -> None:
    """What the writer was told to be written is there, whole, and in order: 30 times."""
    chance = random.Random(11)
    torn = lines = 0
    for attempt in range(30):
        path = str(tmp_path / f"{attempt}.ledger.jsonl")
        writing[:8] = bytes(8)
        command = [sys.executable, "-c", WRITER, path, str(tmp_path / "counter"), str(attempt)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0, 0.03))
            process.send_signal(signal.SIGKILL)
        confirmed = int.from_bytes(writing[:8], "little")
        found = Recording.read(path)
        # one more may be whole: the writer was killed before it could count it
        assert confirmed <= len(found.events) <= confirmed + 1
        assert numbers(found) == list(range(len(found.events)))
        assert len(found.notes) <= 1
        torn += len(found.notes)
        lines += len(found.events)
        os.unlink(path)
    print(f"\n{lines} lines were written, {torn} of 30 recordings have a torn tail")
    assert lines > 30


def test_a_line_is_one_write(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bytes] = []
    write = os.write

    def counting(fd: int, data: bytes) -> int:
        calls.append(data)
        return write(fd, data)

    monkeypatch.setattr(os, "write", counting)
    written(path, noted(0, text="x" * 100_000), noted(1))
    assert len(calls) == 3
    assert all(call.endswith(b"\n") and call.count(b"\n") == 1 for call in calls)
