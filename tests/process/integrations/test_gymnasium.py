"""`RecordMemory` around real Gymnasium environments, one of which leaks."""

import time
from typing import Any

import gymnasium
import numpy as np
import pytest

from ramledger.errors import ConfigError
from ramledger.integrations.gymnasium import RecordMemory
from ramledger.integrations.repeated_work import Passes


class LeakyEnv(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Box(-1, 1, (4,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.frames: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 5
        self.frames.append(np.ones((100, 100, 3)))
        return np.zeros(4, np.float32), {"mine": 1}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        return np.zeros(4, np.float32), 0.0, self.left == 0, False, {}


def play(env: Any, episodes: int) -> list[dict[str, Any]]:
    infos = []
    for episode in range(episodes):
        _, info = env.reset(seed=episode)
        infos.append(info)
        is_over = False
        while not is_over:
            *_, terminated, truncated, info = env.step(env.action_space.sample())
            is_over = terminated or truncated
        infos.append(info)
    return infos


def test_memory_is_in_the_info_of_resets_and_last_steps() -> None:
    env = RecordMemory(gymnasium.make("CartPole-v1"))
    infos = play(env, 3)
    assert len(infos) == 6
    assert all(info["memory"]["rss_bytes"] > 1 << 20 for info in infos)
    assert [info["memory"]["episode"] for info in infos] == [0, 0, 1, 1, 2, 2]


def test_what_the_environment_says_stays() -> None:
    info = play(RecordMemory(LeakyEnv()), 1)[0]
    assert info["mine"] == 1


def test_an_environment_that_keeps_frames_is_found_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    env = RecordMemory(LeakyEnv())
    monkeypatch.setattr(env._sizes, "allows", lambda: True)  # a block is an episode
    assert env.decides_in > 0
    play(env, 30)
    leak = env.leak()
    assert env.decides_in == 0
    assert leak is not None
    # where ends of blocks cost too much, a block is several episodes
    assert 0.8 * 240_000 <= leak.bytes_per_pass / env._block <= 1.2 * 240_000
    assert "frames" in str(leak)


def test_a_leak_is_named_though_looks_were_too_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    env = RecordMemory(LeakyEnv())
    monkeypatch.setattr(env._snapshots, "allows", lambda: env._snapshots.spent_seconds == 0)
    play(env, 30)
    assert "frames" in str(env.leak())


def test_a_long_run_is_judged_in_larger_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    env = RecordMemory(LeakyEnv())
    monkeypatch.setattr(env._sizes, "allows", lambda: True)
    play(env, 200)
    leak = env.leak()
    assert leak is not None
    assert env._block == 4
    assert leak.bytes_per_pass == pytest.approx(4 * 240_000, rel=0.2)
    assert len(env._passes._generations) + len(env._passes._snapshots) < 200


def test_a_sound_environment_is_not() -> None:
    env = RecordMemory(gymnasium.make("CartPole-v1"))
    play(env, 60)
    assert env.leak() is None


def test_steps_read_rss_rarely_and_a_sound_environment_is_not_looked_into(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    env = RecordMemory(gymnasium.make("CartPole-v1"))
    readings: list[int] = []
    snapshots: list[int] = []

    def read() -> int:
        readings.append(1)
        return 1 << 30

    monkeypatch.setattr(env._session, "rss_bytes", read)
    monkeypatch.setattr(env._passes, "take_snapshot", lambda: snapshots.append(1))
    clock = iter(range(1_000_000))
    # a millisecond goes by between two questions for the time
    monkeypatch.setattr(time, "monotonic", lambda: next(clock) / 1000)
    env.action_space.seed(1)
    env.reset(seed=1)
    episodes = 1
    for _ in range(10_000):
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
            episodes += 1
    assert episodes > 200
    assert len(readings) <= 2 * episodes / 20 + 10
    assert not snapshots


def test_ends_of_blocks_that_cost_too_much_become_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    env = RecordMemory(LeakyEnv())
    monkeypatch.setattr(env._sizes, "allows", lambda: False)
    ended = []
    end = env._passes.ended

    def counted() -> None:
        ended.append(1)
        end()

    monkeypatch.setattr(env._passes, "ended", counted)
    play(env, 1_025)
    assert len(ended) == 16 + 8 * 6  # 16 episodes, then twice as many for every 8 blocks
    leak = env.leak()
    assert leak is not None
    assert 120 <= leak.bytes_per_pass / 240_000 <= 136


def test_blocks_of_no_episodes_are_refused() -> None:
    with pytest.raises(ConfigError):
        RecordMemory(gymnasium.make("CartPole-v1"), episodes_per_block=0)


def test_halving_keeps_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bytes] = []
    # what malloc has handed out in this process is also that of every test before this one
    passes = Passes(collect=False)
    monkeypatch.setattr(passes._session, "in_use_bytes", lambda: sum(map(len, kept)))
    for number in range(40):
        kept.append(bytes(200_000))
        passes.ended(snapshot=number % 5 == 0)
    passes.halve()
    leak = passes.leak(1000)
    assert leak is not None
    assert 0.9 * 400_000 <= leak.bytes_per_pass <= 1.1 * 400_000


def test_what_it_was_made_with_is_in_the_spec() -> None:
    env = RecordMemory(gymnasium.make("CartPole-v1"), episodes_per_block=3)
    assert env.spec is not None
    again = gymnasium.make(env.spec)
    assert isinstance(again, RecordMemory)
    assert again._block == 3


def test_many_environments_and_no_info_are_told_and_let_be() -> None:
    with pytest.raises(ConfigError, match="many environments"):
        RecordMemory(gymnasium.make_vec("CartPole-v1", num_envs=2))
    env = RecordMemory(gymnasium.make("CartPole-v1"))
    assert env._with_memory(None) is None  # type: ignore[arg-type]
