"""Our storage in TorchRL's replay buffers: the same batches as its own, half the memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ramledger import CheckpointError, ConfigError

pytest.importorskip("torchrl")

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

from ramledger.replay.torchrl_storage import LedgerStorage, as_it_is

pytestmark = [pytest.mark.serial, pytest.mark.filterwarnings("default")]


def steps(first: int, count: int) -> Any:
    """Transitions of episodes of ten, whose content follows from their number."""
    number = torch.arange(first, first + count)
    obs = (number + number // 10).float()[:, None] * torch.ones(6)
    ends = (number % 10 == 9)[:, None]
    following = {
        "observation": obs + 1, "reward": number.float()[:, None], "terminated": ends,
        "truncated": torch.zeros_like(ends), "done": ends,
    }  # fmt: skip
    return TensorDict(
        {
            "observation": obs, "action": number[:, None].float(), "next": following,
            "collector": {"traj_ids": number // 10}, "done": torch.zeros_like(ends),
        },
        batch_size=[count],
    )  # fmt: skip


def buffers(size: int) -> tuple[Any, Any]:
    ours = TensorDictReplayBuffer(storage=LedgerStorage(size), batch_size=32, collate_fn=as_it_is)
    return ours, TensorDictReplayBuffer(storage=LazyTensorStorage(size), batch_size=32)


KEYS: tuple[Any, ...] = (
    "observation", "action", ("next", "observation"), ("next", "reward"), ("next", "terminated"),
    ("next", "done"), ("collector", "traj_ids"),
)  # fmt: skip


def test_batches_are_those_of_torchrls_own_storage() -> None:
    ours, theirs = buffers(100)
    for first in range(0, 260, 20):
        for buffer in (ours, theirs):
            buffer.extend(steps(first, 20))
    for buffer in (ours, theirs):
        buffer.add(steps(260, 1)[0])
    for seed in range(5):
        torch.manual_seed(seed)
        mine = ours.sample()
        torch.manual_seed(seed)
        wanted = theirs.sample()
        for key in KEYS:
            assert torch.equal(mine[key], wanted[key]), key
    core = ours.storage.core
    assert len(ours) == len(theirs) == 100
    assert core.schema.row_bytes == 24  # one observation a step


def test_a_dump_is_loaded_and_goes_on(tmp_path: Path) -> None:
    ours, _ = buffers(50)
    ours.extend(steps(0, 40))
    ours.dumps(tmp_path)
    again, _ = buffers(50)
    again.loads(tmp_path)
    assert len(again) == 40
    assert torch.equal(again[:]["observation"], ours[:]["observation"])
    for buffer in (ours, again):
        buffer.extend(steps(40, 20))
    assert torch.equal(again[:]["next", "reward"], ours[:]["next", "reward"])
    other, _ = buffers(60)
    with pytest.raises(CheckpointError, match="for 50"):
        other.loads(tmp_path)


def test_what_cannot_be_stored_is_refused() -> None:
    storage = LedgerStorage(50)
    with pytest.raises(ConfigError, match="empty"):
        storage.get(0)
    with pytest.raises(ConfigError, match="no action"):
        storage.set(range(4), steps(0, 4).exclude("action"))
    storage.set(range(4), steps(0, 4))
    with pytest.raises(ConfigError, match="next ones"):
        storage.set(np.arange(10, 14), steps(4, 4))
    with pytest.raises(ConfigError, match="action"):
        storage.set(range(4, 8), steps(4, 4).exclude("action"))
    with pytest.raises(CheckpointError, match="state_dict"):
        storage.state_dict()
    assert len(storage) == 4
