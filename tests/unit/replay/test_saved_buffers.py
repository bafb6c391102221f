"""Saves are listed with what loading them takes, and named by what was added and drawn."""

from pathlib import Path

import numpy as np

from ramledger.errors import CheckpointError
from ramledger.replay import Field, ReplayBuffer, Save, Schema, saves

SCHEMA = Schema(Field((3,)), action=Field((1,)))


def filled(count: int) -> ReplayBuffer:
    buffer = ReplayBuffer(SCHEMA, 100, n_envs=2, seed=7)
    for step in range(count):
        observation = np.full((2, 3), step, np.float32)
        buffer.add_step(
            observation, np.zeros((2, 1), np.float32), np.zeros(2, np.float32), observation + 1,
            np.zeros(2, bool), np.zeros(2, bool),
        )  # fmt: skip
    return buffer


def test_every_save_is_described_newest_first(tmp_path: Path) -> None:
    buffer = filled(5)
    first = buffer.fingerprint
    buffer.save(tmp_path)
    buffer.sample(4)
    assert buffer.fingerprint != first
    buffer.save(tmp_path)
    found = [save for save in saves(tmp_path) if isinstance(save, Save)]
    assert [save.number for save in found] == [2, 1]
    assert [save.fingerprint for save in found] == [buffer.fingerprint, first]
    assert {(save.environments, save.capacity) for save in found} == {(2, buffer.capacity)}
    assert found[0].schema == SCHEMA
    assert 0 < found[0].loaded_bytes <= buffer.reserved_bytes
    assert ReplayBuffer.load(tmp_path).fingerprint == buffer.fingerprint


def test_a_damaged_save_is_listed_as_its_error(tmp_path: Path) -> None:
    buffer = filled(5)
    buffer.save(tmp_path)
    buffer.save(tmp_path)
    (tmp_path / "save-00000002.json").write_text("{}")
    newest, oldest = saves(tmp_path)
    assert isinstance(newest, CheckpointError) and newest.message.startswith("save 2: ")
    assert isinstance(oldest, Save) and oldest.number == 1


def test_a_folder_without_saves(tmp_path: Path) -> None:
    assert list(saves(tmp_path / "none")) == []
