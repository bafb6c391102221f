"""Who holds what: accounts, paths, sharing, and code of the user's that must not run."""

from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
from torch import nn

from ramledger.ledger import Source
from ramledger.objects.holdings import Holding
from ramledger.objects.names.walk_roots import Root
from ramledger.objects.walk import ObjectWalk


def walk(**roots: Any) -> ObjectWalk:
    exploration = ObjectWalk()
    exploration.walk(
        [[Root(f"train.py:{name}", f"train.py:{name}", value) for name, value in roots.items()]]
    )
    return exploration


def block_bytes(holding: Holding) -> int:
    return sum(block.storage.reserved_bytes for block in holding.blocks)


class Trainer:
    """A plain object with data at several depths."""

    def __init__(self) -> None:
        self.history = [np.zeros(20_000) for _ in range(10)]
        self.table = {"prices": np.zeros(50_000)}


def test_paths_read_as_people_write_them() -> None:
    found = walk(trainer=Trainer())
    paths = {b.path for h in found.holdings.values() for b in h.blocks}
    assert paths == {"train.py:trainer.history[*]", "train.py:trainer.table['prices']"}


def test_networks_gradients_and_optimizer_are_told_apart() -> None:
    class Agent:
        def __init__(self) -> None:
            self.actor = nn.Linear(100, 50)
            self.optimizer = torch.optim.Adam(self.actor.parameters())

    agent = Agent()
    agent.actor(torch.ones(1, 100)).sum().backward()
    agent.optimizer.step()
    found = walk(agents=[agent]).holdings
    parameters = (100 * 50 + 50) * 4
    assert block_bytes(found["networks/actor"]) == parameters
    assert block_bytes(found["gradients"]) == parameters
    # two moments each, and one step counter a parameter tensor
    assert block_bytes(found["optimizer"]) == 2 * parameters + 2 * 4
    assert found["networks/actor"].source is Source.RECOGNIZED


def test_replay_buffers_are_booked_by_field_with_their_fill() -> None:
    space = gym.spaces.Box(-1, 1, (71,))
    replay = ReplayBuffer(1000, space, gym.spaces.Discrete(3), device="cpu")
    observation = np.zeros((1, 71), np.float32)
    for _ in range(250):
        replay.add(observation, observation, np.zeros(1), np.zeros(1), np.zeros(1), [{}])
    found = walk(buffer=replay).holdings
    assert block_bytes(found["replay/observations"]) == 1000 * 71 * 4
    assert block_bytes(found["replay/next_observations"]) == 1000 * 71 * 4
    assert found["replay/observations"].fill == 0.25


def test_rollout_buffers_have_an_account_of_their_own() -> None:
    space = gym.spaces.Box(-1, 1, (8,))
    found = walk(model=RolloutBuffer(64, space, space, device="cpu")).holdings
    assert block_bytes(found["rollout/observations"]) == 64 * 8 * 4


def test_what_an_env_holds_is_the_envs() -> None:
    class Market(gym.Env[Any, Any]):
        def __init__(self) -> None:
            self.prices = np.zeros(40_000)

    found = walk(env=gym.wrappers.OrderEnforcing(Market())).holdings
    assert block_bytes(found["env"]) == 320_000
    assert found["env"].owners == 1


def test_claims_come_first_and_name_their_fields() -> None:
    trainer = Trainer()
    exploration = ObjectWalk()
    exploration.claim("data", [trainer])
    exploration.walk([[Root("train.py:trainer", "train.py:trainer", trainer)]])
    assert block_bytes(exploration.holdings["data/history"]) == 10 * 160_000
    assert exploration.holdings["data/table"].source is Source.CLAIM
    assert not any(h.blocks for a, h in exploration.holdings.items() if "variables" in a)


def test_what_two_claims_share_is_booked_once_and_said() -> None:
    shared = np.zeros(100_000)

    class Holder:
        def __init__(self) -> None:
            self.data = shared

    first, second = Holder(), Holder()
    exploration = ObjectWalk()
    exploration.claim("first", [first])
    exploration.claim("second", [second])
    blocks = [b for h in exploration.holdings.values() for b in h.blocks]
    assert len(blocks) == 1
    assert blocks[0].account == "first/data"
    assert blocks[0].shared_with == ("second/data",)


@pytest.mark.parametrize("kind", [list, deque, tuple])
def test_long_containers_are_estimated_from_runs(kind: Any) -> None:
    data = kind({"reward": float(i), "info": np.zeros(8)} for i in range(50_000))
    found = walk(log=data)
    holding = found.holdings["variables/train.py:log"]
    # a dict (184+16 → 200, rounded to 208), a float (24 → 32), an ndarray header (112)
    assert holding.python_bytes == pytest.approx(50_000 * (208 + 32 + 112), rel=0.15)
    assert holding.native_bytes >= 50_000 * 64
    container = found.containers[0]
    assert (container.length, container.element_type) == (50_000, "dict")
    assert container.path == "train.py:log"


def test_neighbors_in_a_long_container_share_what_they_share() -> None:
    observations = [np.zeros(64) for _ in range(10_001)]
    replay = deque((observations[i], observations[i + 1]) for i in range(10_000))
    del observations
    holding = walk(replay=replay).holdings["variables/train.py:replay"]
    tuples = 10_000 * 64
    assert holding.native_bytes == pytest.approx(10_000 * 512 + tuples, rel=0.2)


def test_large_arrays_in_a_long_container_are_all_located() -> None:
    frames = [np.zeros(100_000, np.uint8) for _ in range(400)]
    holding = walk(frames=frames).holdings["variables/train.py:frames"]
    assert block_bytes(holding) == 400 * 100_000


def test_what_all_elements_share_is_not_multiplied() -> None:
    config = {"name": "x" * 1000, "table": list(range(1000, 3000))}
    data = [[i, config] for i in range(10_000)]
    holding = walk(data=data).holdings["variables/train.py:data"]
    assert holding.python_bytes + holding.native_bytes < 10_000 * 250


def test_no_code_of_the_user_runs() -> None:
    class Hostile(dict):  # type: ignore[type-arg]
        def _explode(self, *_: Any) -> Any:
            raise AssertionError("user code ran")

        __iter__ = __len__ = __getitem__ = items = values = __sizeof__ = _explode
        __class__ = property(_explode)

        def __getattr__(self, name: str) -> Any:
            raise AssertionError("user code ran")

    class Lazy:
        @property
        def huge(self) -> Any:
            raise AssertionError("user code ran")

        def __eq__(self, other: object) -> bool:
            raise AssertionError("user code ran")

        __hash__ = None  # type: ignore[assignment]

    hostile = Hostile()
    dict.__setitem__(hostile, "frames", np.zeros(10_000))
    found = walk(hostile=hostile, lazy=Lazy())
    assert sum(block_bytes(h) for h in found.holdings.values()) == 80_000


def test_slots_closures_partials_and_generators_are_followed() -> None:
    from functools import lru_cache, partial

    class Slotted:
        __slots__ = ("data",)

        def __init__(self) -> None:
            self.data = np.zeros(10_000)

    def closing() -> Any:
        captured = np.zeros(10_000)
        return lambda: captured

    @lru_cache
    def cached(n: int) -> Any:
        return np.zeros(n)

    cached(10_000)

    def generating() -> Any:
        held = np.zeros(10_000)
        yield
        del held

    generator = generating()
    next(generator)
    found = walk(
        slotted=Slotted(),
        closure=closing(),
        part=partial(print, np.zeros(10_000)),
        cache=cached,
        generator=generator,
    )
    assert sum(block_bytes(h) for h in found.holdings.values()) == 5 * 80_000


def test_a_view_met_first_does_not_take_the_array() -> None:
    class Replay:
        def __init__(self) -> None:
            self.observations = np.zeros((1000, 1000))

    replay = Replay()
    found = walk(batch=replay.observations[:8], replay=replay)
    [block] = [b for h in found.holdings.values() for b in h.blocks]
    assert block.path == "train.py:replay.observations"
    assert not block.storage.pinned_by_view
    alone = walk(kept=np.zeros((1000, 1000))[:8])
    [pinned] = [b for h in alone.holdings.values() for b in h.blocks]
    assert pinned.storage.pinned_by_view


def test_a_list_of_parameters_does_not_take_them_from_the_network() -> None:
    class Agent:
        def __init__(self) -> None:
            self.inner = {"deep": {"net": nn.Linear(100, 100)}}

    agent = Agent()
    parameters = list(agent.inner["deep"]["net"].parameters())
    found = walk(parameters=parameters, agent=agent).holdings
    assert any(a.startswith("networks/") and block_bytes(h) > 40_000 for a, h in found.items())
