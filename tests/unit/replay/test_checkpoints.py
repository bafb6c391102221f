"""Saves are incremental, consistent, exact to resume, and say what is wrong with a damaged one."""

import json
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ramledger import CheckpointError, ConfigError
from ramledger.replay import Field, Frames, Prioritized, ReplayBuffer, Schema, TableWindow
from ramledger.replay.checkpoints.point_in_time import common, take_point_in_time
from tests.support.naive_buffer import same
from tests.support.numbered_transitions import SCHEMA, add, assert_true, files_of, filled


def test_a_loaded_buffer_draws_the_same_batches(tmp_path: Path) -> None:
    buffer = filled(5000)
    buffer.sample(64)
    buffer.save(tmp_path)
    eager, lazy = ReplayBuffer.load(tmp_path), ReplayBuffer.load(tmp_path, lazy=True)
    for _ in range(5):
        wanted = buffer.sample(64)
        for loaded in (eager, lazy):
            found = loaded.sample(64)
            assert found.index.tolist() == wanted.index.tolist()
            assert same(found.obs, wanted.obs)
            assert same(found.next_obs, wanted.next_obs)
            assert same(found.reward, wanted.reward)


def test_priorities_are_part_of_a_checkpoint(tmp_path: Path) -> None:
    buffer = filled(500, 400, prioritized=Prioritized())
    batch = buffer.sample(64)
    buffer.update_priorities(batch.index, np.arange(64.0))
    buffer.save(tmp_path)
    loaded = ReplayBuffer.load(tmp_path)
    for _ in range(3):
        mine, theirs = buffer.sample(32), loaded.sample(32)
        assert mine.index.tolist() == theirs.index.tolist()
        assert same(mine.weight, theirs.weight)
        for each, drawn in ((buffer, mine), (loaded, theirs)):
            each.update_priorities(drawn.index, np.ones(32) * 3)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_loaded_buffer_goes_on(tmp_path: Path, lazy: bool) -> None:
    buffer = filled(4000)
    buffer.save(tmp_path)
    loaded = ReplayBuffer.load(tmp_path, lazy=lazy)
    # lazily loaded rows are overwritten before they were ever read
    add(loaded, 4000, 2500)
    assert_true(loaded)
    loaded.save(tmp_path)
    assert_true(ReplayBuffer.load(tmp_path))


def test_a_save_writes_what_is_new_and_no_more(tmp_path: Path) -> None:
    buffer = filled(60_000, 50_000)
    first = buffer.save(tmp_path)
    add(buffer, 60_000, 2000)
    second = buffer.save(tmp_path)
    third = buffer.save(tmp_path)
    assert first.is_full
    assert not second.is_full
    # 4 % of the transitions
    assert second.written_bytes < 0.06 * first.written_bytes
    assert third.written_bytes < 0.005 * first.written_bytes
    assert_true(ReplayBuffer.load(tmp_path))


def test_old_saves_go_and_with_them_segments_that_nobody_needs(tmp_path: Path) -> None:
    buffer = filled(3000)
    for number in range(12):
        buffer.save(tmp_path, keep=3)
        add(buffer, buffer.total_added, 700)
        saves = [path.name for path in files_of(tmp_path) if path.suffix == ".json"]
        assert len(saves) == min(number + 1, 3)
    whole = 3000 * (SCHEMA.row_bytes + SCHEMA.step_bytes)
    assert sum(path.stat().st_size for path in files_of(tmp_path)) < 3.5 * whole


def test_what_training_adds_meanwhile_is_not_in_the_save(tmp_path: Path) -> None:
    buffer = filled(4000)
    for _ in range(4):
        job = buffer.save_in_background(tmp_path)
        total = buffer.total_added
        # more than the ring holds: everything that is being saved is overwritten
        add(buffer, total, 3500)
        job.wait()
        loaded = ReplayBuffer.load(tmp_path)
        assert loaded.total_added == total
        assert_true(loaded)
    assert_true(buffer)


def test_the_checkpoint_of_another_buffer_is_not_overwritten(tmp_path: Path) -> None:
    filled(1000).save(tmp_path)
    other = filled(500)
    with pytest.raises(CheckpointError, match="another buffer"):
        other.save(tmp_path)
    assert ReplayBuffer.load(tmp_path).total_added == 1000
    other.save(tmp_path, overwrite=True)
    assert ReplayBuffer.load(tmp_path).total_added == 500


def test_two_resumed_runs_cannot_save_to_one_folder(tmp_path: Path) -> None:
    filled(1000).save(tmp_path)
    first, second = ReplayBuffer.load(tmp_path), ReplayBuffer.load(tmp_path)
    add(first, 1000, 10)
    first.save(tmp_path)
    add(second, 1000, 20)
    with pytest.raises(CheckpointError, match="another process has saved"):
        second.save(tmp_path)
    assert ReplayBuffer.load(tmp_path).total_added == 1010


def test_one_save_can_be_asked_for_by_its_number(tmp_path: Path) -> None:
    buffer = filled(1000)
    for _ in range(3):
        buffer.save(tmp_path, keep=3)
        add(buffer, buffer.total_added, 100)
    for number in (1, 2, 3):
        loaded = ReplayBuffer.load(tmp_path, number=number)
        assert loaded.total_added == 900 + 100 * number
        assert_true(loaded)
    with pytest.raises(CheckpointError, match="no save 7") as caught:
        ReplayBuffer.load(tmp_path, number=7)
    assert "1, 2, 3" in str(caught.value.hint)
    # a run that continues from an earlier save writes the newest one
    earlier = ReplayBuffer.load(tmp_path, number=2)
    add(earlier, 1100, 5)
    saved = earlier.save(tmp_path)
    assert (saved.number, saved.is_full) == (4, True)
    assert ReplayBuffer.load(tmp_path).total_added == 1105


def test_a_save_that_was_asked_for_and_is_damaged_is_not_replaced(tmp_path: Path) -> None:
    buffer = filled(100)
    buffer.save(tmp_path)
    add(buffer, 100, 10)
    buffer.save(tmp_path)
    (tmp_path / "save-00000002.json").write_text("damaged")
    assert ReplayBuffer.load(tmp_path).total_added == 100
    with pytest.raises(CheckpointError, match="save 2"):
        ReplayBuffer.load(tmp_path, number=2)


# ---- damage --------------------------------------------------------------------------------------


def test_a_flipped_bit_in_any_file_is_found_and_the_save_before_is_used(tmp_path: Path) -> None:
    buffer = filled(1500)
    buffer.save(tmp_path)
    old = set(files_of(tmp_path))
    add(buffer, 1500, 600)
    buffer.save(tmp_path)
    new = [path for path in files_of(tmp_path) if path not in old]
    rng = np.random.default_rng(5)
    for path in new:
        whole = path.read_bytes()
        for at in rng.integers(0, len(whole), 12):
            broken = bytearray(whole)
            broken[at] ^= 1 << int(rng.integers(0, 8))
            path.write_bytes(broken)
            loaded = ReplayBuffer.load(tmp_path)
            assert loaded.restored is not None
            if loaded.restored.lost:
                assert loaded.total_added == 1500
                assert "save 2" in loaded.restored.lost[0]
            else:  # a bit that means nothing, such as in a blank of the first line
                assert loaded.total_added == 2100
            assert_true(loaded)
        path.write_bytes(whole)
    assert ReplayBuffer.load(tmp_path).total_added == 2100


@pytest.mark.parametrize("change", ["shorter", "missing", "empty"])
def test_a_segment_that_is_not_whole_is_named(tmp_path: Path, change: str) -> None:
    buffer = filled(1500)
    buffer.save(tmp_path)
    (segment,) = tmp_path.glob("*.seg")
    if change == "missing":
        segment.unlink()
    else:
        segment.write_bytes(segment.read_bytes()[: -100 if change == "shorter" else 0])
    for lazy in (False, True):
        with pytest.raises(CheckpointError, match=segment.name) as caught:
            ReplayBuffer.load(tmp_path, lazy=lazy)
        assert caught.value.hint


def test_a_lazily_loaded_block_is_verified_when_it_is_read(tmp_path: Path) -> None:
    filled(1500).save(tmp_path)
    (segment,) = tmp_path.glob("*.seg")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 4  # in the rows, which come first and are the most
    segment.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"rows .* checksum"):
        ReplayBuffer.load(tmp_path, lazy=True).sample(2000)


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    filled(100).save(tmp_path)
    (path,) = tmp_path.glob("save-*.json")
    head, _, rest = path.read_bytes().partition(b"\n")
    newer = json.loads(head) | {"format": "ramledger.replay/9"}
    path.write_bytes(json.dumps(newer).encode() + b"\n" + rest)
    with pytest.raises(CheckpointError, match=r"ramledger\.replay/9"):
        ReplayBuffer.load(tmp_path)


def test_a_folder_without_a_checkpoint(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(CheckpointError, match="no checkpoint"):
            ReplayBuffer.load(folder)


def test_another_schema_is_refused(tmp_path: Path) -> None:
    filled(100).save(tmp_path)
    with pytest.raises(CheckpointError, match="different schema"):
        ReplayBuffer.load(tmp_path, schema=Schema(Field((3,))))
    assert_true(ReplayBuffer.load(tmp_path, schema=SCHEMA))


def test_a_table_is_identified_by_its_content(tmp_path: Path) -> None:
    table = np.random.default_rng(0).normal(size=(80, 5)).astype(np.float32)
    schema = Schema(TableWindow("market", 10))
    buffer = ReplayBuffer(schema, 50, tables={"market": table}, seed=2)
    for at in range(9, 70):
        buffer.add(at, 0.0, at, at + 1, False)
    buffer.save(tmp_path)
    with pytest.raises(CheckpointError, match="tables that were not given: market"):
        ReplayBuffer.load(tmp_path)
    other = table.copy()
    other[40, 2] += 1e-6
    with pytest.raises(CheckpointError, match="not the one"):
        ReplayBuffer.load(tmp_path, tables={"market": other})
    loaded = ReplayBuffer.load(tmp_path, tables={"market": table.copy()})
    assert same(loaded.sample(16).obs, buffer.sample(16).obs)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for folder in ("/proc/ramledger", tmp_path / "file" / "below"):
        with pytest.raises(CheckpointError, match="cannot write"):
            filled(100).save(folder)


# ---- compression and memory ----------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["zlib", "zstd", "lz4"])
def test_compressed_blocks_come_back(tmp_path: Path, codec: str) -> None:
    if codec != "zlib":
        pytest.importorskip("zstandard" if codec == "zstd" else "lz4")
    buffer = filled(3000)
    raw = buffer.save(tmp_path / "raw")
    packed = buffer.save(tmp_path / "packed", compress=codec)
    assert packed.checkpoint_bytes < 0.5 * raw.checkpoint_bytes
    assert_true(ReplayBuffer.load(tmp_path / "packed"))


def test_what_does_not_compress_stays_raw(tmp_path: Path) -> None:
    schema = Schema(Frames((1000,), "uint8", 2))
    buffer = ReplayBuffer(schema, 200, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        here, later = rng.integers(0, 256, (2, 2, 1000), dtype=np.uint8)
        buffer.add(here, 0.0, 0.0, later, False)
    saved = buffer.save(tmp_path, compress="zlib")
    assert saved.checkpoint_bytes > 0.9 * buffer.used_bytes
    assert same(ReplayBuffer.load(tmp_path).sample(20).obs, buffer.sample(20).obs)


def test_an_unknown_codec(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown compression"):
        filled(10).save(tmp_path, compress="rar")
    assert not files_of(tmp_path)


def test_the_limit_of_open_files_is_respected(tmp_path: Path) -> None:
    """Many small segments are read with few files open."""
    buffer = filled(10)
    for _ in range(90):
        buffer.save(tmp_path)
        add(buffer, buffer.total_added, 7)
    buffer.save(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 300), hard))
    try:
        assert_true(ReplayBuffer.load(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_settings_and_state_are_plain_data() -> None:
    buffer = filled(100, prioritized=Prioritized())
    document: dict[str, Any] = {"settings": buffer.settings(), "state": buffer.state()}
    assert json.loads(json.dumps(document)) == document


def test_what_comes_before_a_save_is_done_first_or_there_is_none(tmp_path: Path) -> None:
    buffer = filled(50)
    seen: list[int] = []
    buffer.save_in_background(
        tmp_path, before=lambda: seen.append(len(list(tmp_path.glob("save-*"))))
    ).wait()
    assert seen == [0] and len(list(tmp_path.glob("save-*"))) == 1

    def full() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(CheckpointError, match="No space left"):
        buffer.save_in_background(tmp_path, before=full).wait()
    assert len(list(tmp_path.glob("save-*"))) == 1
    assert buffer.save(tmp_path).number == 2


def test_what_is_written_next_is_in_no_snapshot() -> None:
    """A stream writes from its head on without asking the save: that must not be what it reads."""
    buffer = filled(4000)
    for count in (0, 1, 37, 500, 3500, 7001):
        add(buffer, buffer.total_added, count)
        for everything in (False, True):
            pieces = [p for p in take_point_in_time(buffer, everything).pieces if p.group == "rows"]
            for stream in buffer.store.streams:
                assert not any(p.begin < stream.end and p.end > stream.head for p in pieces)
            add(buffer, buffer.total_added, 3500)


def test_common_spans() -> None:
    assert common([(0, 10), (20, 30)], [(5, 22), (25, 40)]) == [(5, 10), (20, 22), (25, 30)]
    assert common([(0, 10)], []) == []
