"""What others put into a folder of ours is never opened for writing and never removed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ramledger import CheckpointError
from ramledger.replay import Folder, ReplayBuffer, download, export, upload
from ramledger.replay.checkpoints.segment import head_of
from tests.support.numbered_transitions import add, assert_true, filled
from tests.support.places import ROOT

THEIRS = [
    "notes.tmp", "save-00000002.tmp", "save-00000009.tmp", "data.seg", "00000001-0007.seg",
    "00000009-0000.seg", "00000002-0123456789abcdef-0000.seg", "save-00000002-0123456789abcdef.tmp",
    "save-1.json", ".save-00000002.json", "weights.pt.tmp", "segments.seg.tmp",
]  # fmt: skip


def with_theirs(folder: Path) -> dict[str, bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    found = {name: f"theirs: {name}".encode() for name in THEIRS}
    for name, data in found.items():
        (folder / name).write_bytes(data)
    return found


def assert_theirs(folder: Path, found: dict[str, bytes]) -> None:
    assert {name: (folder / name).read_bytes() for name in found} == found


def test_saves_leave_what_is_not_theirs(tmp_path: Path) -> None:
    found = with_theirs(tmp_path)
    buffer = filled(300)
    for _ in range(5):
        buffer.save(tmp_path)
        add(buffer, buffer.total_added, 3000)
    buffer.save(tmp_path, overwrite=True)
    assert_theirs(tmp_path, found)
    assert len(list(tmp_path.glob("save-????????.json"))) == 2
    assert_true(ReplayBuffer.load(tmp_path))


def test_segments_of_another_buffer_stay(tmp_path: Path) -> None:
    """They look like what a killed writer leaves, but say whose they are."""
    filled(100).save(tmp_path / "other")
    (segment,) = (tmp_path / "other").glob("*.seg")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / segment.name).write_bytes(segment.read_bytes())
    buffer = filled(100)
    buffer.save(tmp_path / "here")
    buffer.save(tmp_path / "here", overwrite=True)
    assert (tmp_path / "here" / segment.name).exists()


def test_what_a_killed_save_left_goes_with_the_next(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from tests.support.numbered_transitions import add, filled
from ramledger.replay import ReplayBuffer
buffer = ReplayBuffer.load(sys.argv[1])
add(buffer, 300, 3000)
buffer.save(sys.argv[1], progress=lambda done, total: os.kill(os.getpid(), signal.SIGKILL))
"""
    filled(300).save(tmp_path)
    found = with_theirs(tmp_path)
    before = set(tmp_path.iterdir())
    command = [sys.executable, "-c", program, str(tmp_path)]
    assert subprocess.run(command, cwd=ROOT, timeout=100).returncode == -signal.SIGKILL
    left = set(tmp_path.iterdir()) - before
    assert left
    # of manifests that were not completed, too
    draft = tmp_path / "save-00000002-fedcba9876543210.tmp"
    draft.write_bytes(b'{"format": "ramledger.re')
    loaded = ReplayBuffer.load(tmp_path)
    loaded.save(tmp_path)
    assert not any(path.exists() for path in (*left, draft))
    assert_theirs(tmp_path, found)


def test_a_damaged_manifest_stays_and_so_does_one_of_a_later_version(tmp_path: Path) -> None:
    buffer = filled(300)
    buffer.save(tmp_path)
    path = tmp_path / "save-00000001.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    for _ in range(4):
        add(buffer, buffer.total_added, 10)
        buffer.save(tmp_path)
    assert path.exists()
    head, _, rest = whole.partition(b"\n")
    newer = json.loads(head) | {"format": "ramledger.replay/9"}
    path.write_bytes(json.dumps(newer).encode() + b"\n" + rest)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(CheckpointError, match=r"ramledger\.replay/9") as caught:
        buffer.save(tmp_path)
    assert "overwrite" in caught.value.hint
    assert sorted(tmp_path.iterdir()) == before
    buffer.save(tmp_path, overwrite=True)
    assert path.exists()


def test_a_branch_of_the_same_buffer_is_not_overwritten(tmp_path: Path) -> None:
    filled(300).save(tmp_path / "a")
    one, other = ReplayBuffer.load(tmp_path / "a"), ReplayBuffer.load(tmp_path / "a")
    add(one, 300, 10)
    one.save(tmp_path / "b")
    with pytest.raises(CheckpointError, match="another buffer"):
        other.save(tmp_path / "b")
    assert ReplayBuffer.load(tmp_path / "b").total_added == 310


def test_numbers_end(tmp_path: Path) -> None:
    (tmp_path / "save-99999999.json").write_text("x")
    with pytest.raises(CheckpointError, match="largest save number"):
        filled(10).save(tmp_path)


def test_stores_keep_what_is_not_theirs(tmp_path: Path) -> None:
    store = tmp_path / "store"
    found = with_theirs(store)
    for name in ("segments/x.seg", "segments/00000001-0000.seg", "uploads/x.json", "extra/1/x"):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_bytes(b"theirs")
        found[name] = b"theirs"
    buffer = filled(300)
    for _ in range(4):
        buffer.save(tmp_path / "a")
        upload(tmp_path / "a", str(store), keep=1)
        add(buffer, buffer.total_added, 3000)
    assert_theirs(store, found)
    target = with_theirs(tmp_path / "b")
    download(str(store), tmp_path / "b")
    assert_theirs(tmp_path / "b", target)


def test_an_export_opens_no_draft_of_others(tmp_path: Path) -> None:
    (tmp_path / ".out.npz.part").write_text("theirs")
    export(filled(50), tmp_path / "out.npz")
    assert (tmp_path / ".out.npz.part").read_text() == "theirs"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_of_rows_removes_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "mine.rows").write_text("theirs")
    folder = Folder(tmp_path)
    folder.allocate("obs", (10,), "float32")
    folder.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["mine.rows"]


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "saves").mkdir()
    (tmp_path / "saves" / "writer.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="cannot write"):
        filled(10).save(tmp_path / "saves")
    assert not (tmp_path / "elsewhere").exists()


def test_a_segment_says_whose_it_is(tmp_path: Path) -> None:
    buffer = filled(10)
    buffer.save(tmp_path)
    (segment,) = tmp_path.glob("*.seg")
    lineage = segment.name.split("-")[1]
    assert segment.read_bytes().startswith(head_of(buffer.buffer_id, lineage))
    other = segment.with_name(segment.name.replace(lineage, "0" * 16))
    os.rename(segment, other)
    with pytest.raises(CheckpointError, match=segment.name):
        ReplayBuffer.load(tmp_path)
