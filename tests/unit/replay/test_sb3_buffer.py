"""The drop-in gives what stable-baselines3's own buffers give, bit by bit, and trains."""

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer
from stable_baselines3.common.buffers import ReplayBuffer as BaselinesReplayBuffer
from stable_baselines3.common.callbacks import CheckpointCallback

from ramledger import CheckpointError
from ramledger.replay.sb3_buffer import LedgerReplayBuffer

ACTIONS = {
    "box": spaces.Box(-1, 1, (3,), np.float32),
    "float64": spaces.Box(-1, 1, (2,), np.float64),
    "discrete": spaces.Discrete(5),
}
OBSERVATIONS: dict[str, Any] = {
    "vector": spaces.Box(-9, 9, (6,), np.float32),
    "float64": spaces.Box(-9, 9, (6,), np.float64),
    "discrete": spaces.Discrete(30),
    "stack": spaces.Box(0, 255, (4, 5, 5), np.uint8),
    "colors": spaces.Box(0, 255, (6, 5, 5), np.uint8),
    "dict": spaces.Dict(
        {"image": spaces.Box(0, 255, (4, 5, 5), np.uint8), "v": spaces.Box(-9, 9, (2,), np.float32)}
    ),
}
STACKS: dict[str, Any] = {"stack": 4, "colors": 2, "dict": {"image": 4}}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine take many times longer."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Worlds:
    """Environments whose stacks shift by one frame a step and are padded with zeros at resets."""

    def __init__(self, space: Any, n_envs: int, stack: Any) -> None:
        self.space, self.n_envs, self.stack = space, n_envs, stack
        self.now = [self.first(space, self.stack) for _ in range(n_envs)]

    def first(self, space: Any, stack: Any) -> Any:
        if isinstance(space, spaces.Dict):
            names = space.spaces.items()
            return {name: self.first(s, stack.get(name, 1)) for name, s in names}
        value = np.asarray(space.sample())
        if stack > 1:
            value[: -(len(value) // stack)] = 0
        return value

    def next(self, space: Any, stack: Any, before: Any) -> Any:
        if isinstance(space, spaces.Dict):
            names = space.spaces.items()
            return {name: self.next(s, stack.get(name, 1), before[name]) for name, s in names}
        new = np.asarray(space.sample())
        if stack == 1:
            return new
        size = len(new) // stack
        return np.concatenate([before[size:], new[:size]])

    def together(self, values: list[Any]) -> Any:
        if isinstance(values[0], dict):
            return {name: np.stack([v[name] for v in values]) for name in values[0]}
        return np.stack(values)


def fill_both(
    mine: LedgerReplayBuffer, theirs: BaselinesReplayBuffer, worlds: Worlds, steps: int
) -> None:
    rng = np.random.default_rng(0)
    for _ in range(steps):
        before = worlds.now
        after = [worlds.next(worlds.space, worlds.stack, value) for value in before]
        done = rng.random(worlds.n_envs) < 0.15
        infos = [{"TimeLimit.truncated": bool(end and rng.random() < 0.5)} for end in done]
        action = np.stack([np.asarray(mine.action_space.sample()) for _ in before])
        reward = rng.normal(size=worlds.n_envs).astype(np.float32)
        for buffer in (mine, theirs):
            here, there = worlds.together(before), worlds.together(after)
            buffer.add(here, there, action, reward, done, infos)
        worlds.now = [
            worlds.first(worlds.space, worlds.stack) if end else value
            for end, value in zip(done, after, strict=True)
        ]


def assert_same_batches(mine: Any, theirs: Any, count: int = 40) -> None:
    for seed in range(3):
        batches = []
        for buffer in (mine, theirs):
            np.random.seed(seed)
            batches.append(buffer.sample(count))
        for name in batches[1]._fields:
            found, wanted = (getattr(batch, name) for batch in batches)
            if isinstance(wanted, dict):
                assert all(same_tensor(found[key], wanted[key]) for key in wanted), name
            else:
                assert same_tensor(found, wanted), name


def same_tensor(found: Any, wanted: Any) -> bool:
    if wanted is None:
        return found is None
    return found.dtype == wanted.dtype and torch.equal(found, wanted)


@pytest.mark.parametrize("steps", [7, 90])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_batches_are_those_of_stable_baselines3(name: str, n_envs: int, steps: int) -> None:
    space, stack = OBSERVATIONS[name], STACKS.get(name, 1)
    action = ACTIONS["discrete" if name == "stack" else "box"]
    space.seed(1)
    action.seed(1)
    kind = DictReplayBuffer if name == "dict" else BaselinesReplayBuffer
    theirs = kind(60, space, action, "cpu", n_envs)
    mine = LedgerReplayBuffer(60, space, action, "cpu", n_envs, frame_stack=stack)
    fill_both(mine, theirs, Worlds(space, n_envs, stack), steps)
    assert (mine.pos, mine.full, mine.size()) == (theirs.pos, theirs.full, theirs.size())
    assert_same_batches(mine, theirs)


@pytest.mark.parametrize("steps", [15, 90])
def test_n_step_batches_are_those_of_stable_baselines3(steps: int) -> None:
    space, action = OBSERVATIONS["vector"], ACTIONS["box"]
    theirs = NStepReplayBuffer(60, space, action, "cpu", 2, n_steps=4, gamma=0.97)
    mine = LedgerReplayBuffer(60, space, action, "cpu", 2, n_steps=4, gamma=0.97)
    fill_both(mine, theirs, Worlds(space, 2, 1), steps)
    assert_same_batches(mine, theirs)


def test_each_observation_is_stored_once_although_timeouts_are_handled() -> None:
    space, action = OBSERVATIONS["stack"], ACTIONS["discrete"]
    mine = LedgerReplayBuffer(2000, space, action, "cpu", frame_stack=4)
    theirs = BaselinesReplayBuffer(2000, space, action, "cpu")
    fill_both(mine, theirs, Worlds(space, 1, 4), 2000)
    stream = mine.core.store.streams[0]
    # a frame a step and one more an episode: the first stack of one is padded, which costs nothing
    assert stream.head - mine.core.store.arena.first_row == 2000 + 1 + int(theirs.dones[:-1].sum())


def test_a_pickle_says_where_the_transitions_are(tmp_path: Path) -> None:
    space, action = OBSERVATIONS["vector"], ACTIONS["box"]
    mine = LedgerReplayBuffer(500, space, action, "cpu", checkpoint=str(tmp_path), seed=4)
    theirs = BaselinesReplayBuffer(500, space, action, "cpu")
    fill_both(mine, theirs, Worlds(space, 1, 1), 700)
    data = pickle.dumps(mine)
    assert len(data) < 5000 < theirs.observations.nbytes
    loaded = pickle.loads(data)
    assert (loaded.pos, loaded.full, loaded.n_envs) == (mine.pos, mine.full, 1)
    for _ in range(3):
        assert torch.equal(loaded.sample(32).observations, mine.sample(32).observations)


def test_a_pickle_without_a_folder_is_refused() -> None:
    mine = LedgerReplayBuffer(50, OBSERVATIONS["vector"], ACTIONS["box"], "cpu")
    with pytest.raises(CheckpointError, match="no folder"):
        pickle.dumps(mine)


def model_with(kind: Any, env: str, replay: Any, kwargs: dict[str, Any]) -> Any:
    policy = "MlpPolicy"
    common = {"learning_starts": 40, "buffer_size": 120, "batch_size": 16, "seed": 3}
    layers = {"net_arch": [16]}
    return kind(policy, env, replay_buffer_class=replay, replay_buffer_kwargs=kwargs,
                policy_kwargs=layers, device="cpu", **common)  # fmt: skip


@pytest.mark.parametrize(("kind", "env"), [(DQN, "CartPole-v1"), (SAC, "Pendulum-v1")])
def test_a_training_is_the_same_to_the_last_bit(kind: Any, env: str) -> None:
    theirs = model_with(kind, env, BaselinesReplayBuffer, {}).learn(160)
    mine = model_with(kind, env, LedgerReplayBuffer, {}).learn(160)
    pairs = zip(mine.policy.parameters(), theirs.policy.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_a_callback_saves_and_a_model_resumes(tmp_path: Path) -> None:
    kwargs = {"checkpoint": str(tmp_path / "replay")}
    model = model_with(SAC, "Pendulum-v1", LedgerReplayBuffer, kwargs)
    callback = CheckpointCallback(40, str(tmp_path), save_replay_buffer=True)
    model.learn(130, callback=callback)
    file = tmp_path / "rl_model_replay_buffer_120_steps.pkl"
    assert file.stat().st_size < 5000
    fresh = model_with(SAC, "Pendulum-v1", LedgerReplayBuffer, kwargs)
    fresh.load_replay_buffer(str(file))
    assert fresh.replay_buffer.size() == 119
    fresh.learn(20, reset_num_timesteps=False)


def test_dict_observations_train(tmp_path: Path) -> None:
    class Goal(gym.Env[Any, Any]):
        observation_space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)})
        action_space = spaces.Box(-1, 1, (2,))

        def reset(self, **_: Any) -> Any:
            self.steps = 0
            return self.observation_space.sample(), {}

        def step(self, action: Any) -> Any:
            self.steps += 1
            return self.observation_space.sample(), 0.5, False, self.steps == 9, {}

    model = SAC("MultiInputPolicy", Goal(), replay_buffer_class=LedgerReplayBuffer,
                learning_starts=20, buffer_size=50, batch_size=16, device="cpu",
                policy_kwargs={"net_arch": [8]})  # fmt: skip
    model.learn(60)
    assert isinstance(model.replay_buffer, LedgerReplayBuffer)
    assert model.replay_buffer.core.size == 50


@pytest.mark.parametrize("name", ["vector", "stack", "dict"])
def test_copies_are_independent(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space, action, stack = OBSERVATIONS[name], ACTIONS["box"], STACKS.get(name, 1)
    mine = LedgerReplayBuffer(60, space, action, "cpu", 2, frame_stack=stack)
    kind = DictReplayBuffer if name == "dict" else BaselinesReplayBuffer
    theirs = kind(60, space, action, "cpu", 2)
    fill_both(mine, theirs, Worlds(space, 2, stack), 40)
    copied, plain = copy.deepcopy(mine), mine.as_baselines()
    assert (type(copied), type(plain)) == (LedgerReplayBuffer, kind)
    assert_same_batches(copied, theirs)
    assert_same_batches(plain, theirs)
    fill_both(copied, theirs, Worlds(space, 2, stack), 9)
    assert_same_batches(copied, theirs)
    assert mine.pos == 10 == plain.pos
    assert not list(tmp_path.iterdir())
