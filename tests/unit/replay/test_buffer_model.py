"""Any sequence of adds, wraps, episode ends and samples equals a list of whole transitions."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ramledger.replay import Field, Frames, ReplayBuffer, Schema, TableWindow
from tests.support.naive_buffer import Array, NaiveBuffer, Step, assert_holds, assert_is, same

TABLE = np.random.default_rng(7).normal(size=(40, 3)).astype(np.float32)
WINDOW = 5
KINDS = ("vector", "frames", "last axis", "dict", "table")


def schema_of(kind: str) -> Schema:
    if kind == "vector":
        return Schema(Field((3,)), action=Field((2,)))
    if kind == "frames":
        return Schema(Frames((2, 2), "uint8", stack=3), action=Field((2,)))
    if kind == "last axis":
        return Schema(Frames((2, 2), "int16", stack=4, axis=-1), action=Field((2,)))
    if kind == "table":
        return Schema(
            {"market": TableWindow("market", WINDOW), "own": Field((2,))}, action=Field((2,))
        )
    fields: dict[str, Any] = {"pixels": Frames((2,), "uint8", 3), "v": Field((3,))}
    fields["few"] = Frames((1,), "float32", 2)
    return Schema(fields, action=Field((2,)))


class World:
    """One environment: observations with stacks that shift, are padded, or are broken."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.rng = np.random.default_rng(seed)
        self.stacks: dict[str, Any] = {}
        self.reset("repeat")

    def reset(self, how: str) -> None:
        self.position = int(self.rng.integers(WINDOW - 1, 30))
        for name, kind in schema_of(self.kind).observations.items():
            if isinstance(kind, Frames):
                frames = [self.frame(kind) for _ in range(kind.stack)]
                if how == "repeat":
                    frames = [frames[-1]] * kind.stack
                elif how == "zeros":
                    frames = [np.zeros_like(frames[0])] * (kind.stack - 1) + frames[-1:]
                self.stacks[name] = frames
            elif isinstance(kind, Field):
                self.stacks[name] = [self.frame(kind)]

    def frame(self, kind: Field | Frames) -> Array:
        # few values: frames that are equal by chance must not confuse anything
        return self.rng.integers(0, 3, kind.shape).astype(kind.dtype)

    def step(self) -> None:
        self.position += 1
        for name, kind in schema_of(self.kind).observations.items():
            if not isinstance(kind, TableWindow):
                self.stacks[name] = [*self.stacks[name][1:], self.frame(kind)]

    def observe(self) -> tuple[Any, Any]:
        """What the environment gives to the buffer, and what the buffer has to give back."""
        given: dict[str, Any] = {}
        true: dict[str, Any] = {}
        for name, kind in schema_of(self.kind).observations.items():
            if isinstance(kind, TableWindow):
                given[name] = np.int64(self.position)
                true[name] = TABLE[self.position - WINDOW + 1 : self.position + 1].copy()
            elif isinstance(kind, Frames):
                axis = 0 if kind.axis == 0 else -1
                given[name] = true[name] = np.stack(self.stacks[name], axis)
            else:
                given[name] = true[name] = self.stacks[name][0].copy()
        return (given, true) if schema_of(self.kind).is_dict else (given["obs"], true["obs"])


class AgainstAList(RuleBasedStateMachine):
    @initialize(
        kind=st.sampled_from(KINDS),
        capacity=st.integers(1, 60),
        n_envs=st.integers(1, 3),
        seed=st.integers(0, 1000),
        is_tight=st.booleans(),
        compress=st.sampled_from(["", "zlib"]),
    )
    def make(
        self, kind: str, capacity: int, n_envs: int, seed: int, is_tight: bool, compress: str
    ) -> None:
        self.kind, self.n_envs = kind, n_envs
        # in memory where that can be had: hundreds of saves would wait for the disk
        memory = Path("/dev/shm")
        self.folder = tempfile.mkdtemp(dir=memory if memory.is_dir() else None)
        capacity = max(capacity, n_envs)
        tables = {"market": TABLE}
        self.buffer = ReplayBuffer(
            schema_of(kind), capacity, n_envs=n_envs, seed=seed, tables=tables,
            episode_length=10_000 if is_tight else None, compress=compress,
        )  # fmt: skip
        self.is_tight = is_tight
        self.naive = NaiveBuffer(capacity // n_envs, n_envs)
        self.worlds = [World(kind, seed + number) for number in range(n_envs)]
        self.rng = np.random.default_rng(seed)

    def live(self, env: int, end: str, how: str) -> tuple[Any, Any, Step]:
        """One step of an environment: what is given before and after, and the whole truth."""
        world = self.worlds[env]
        given, true = world.observe()
        if how == "broken":
            world.reset("history")
        elif world.position >= len(TABLE) - 2:
            world.position = WINDOW
        world.step()
        later, true_later = world.observe()
        action = self.rng.integers(0, 9, 2).astype(np.float32)
        reward = float(self.rng.integers(-5, 5))
        step = Step(true, action, reward, true_later, end == "terminated", end == "truncated")
        if end != "none":
            world.reset(how if how != "broken" else "zeros")
        self.naive.add(env, step)
        return given, later, step

    ends = st.sampled_from(["none"] * 6 + ["terminated", "truncated"])
    hows = st.sampled_from(["repeat", "zeros", "history", "broken"])

    @rule(env=st.integers(0, 2), end=ends, how=hows)
    def add(self, env: int, end: str, how: str) -> None:
        env %= self.n_envs
        given, later, step = self.live(env, end, how)
        self.buffer.add(
            given, step.action, step.reward, later, step.terminated, step.truncated, env=env
        )

    @rule(ends=st.lists(ends, min_size=3, max_size=3), how=hows)
    def add_step(self, ends: list[str], how: str) -> None:
        lived = [self.live(env, ends[env], how) for env in range(self.n_envs)]
        self.buffer.add_step(*stacked(lived))

    @rule(env=st.integers(0, 2), ends=st.lists(ends, min_size=1, max_size=50), how=hows)
    def extend(self, env: int, ends: list[str], how: str) -> None:
        env %= self.n_envs
        lived = [self.live(env, end, how) for end in ends]
        self.buffer.extend(*stacked(lived), env=env)

    @rule(env=st.integers(0, 2), count=st.integers(1, 50), end=ends)
    def extend_by_views(self, env: int, count: int, end: str) -> None:
        """Observations and next observations are one memory, one row apart."""
        env %= self.n_envs
        is_last = [at == count - 1 for at in range(count)]
        lived = [self.live(env, end if last else "none", "history") for last in is_last]
        _, action, reward, _, terminated, truncated = stacked(lived)
        whole = together([*(given for given, _, _ in lived), lived[-1][1]])
        here, there = (part(whole, slice(ahead, ahead + count)) for ahead in (0, 1))
        self.buffer.extend(here, action, reward, there, terminated, truncated, env=env)

    @rule(env=st.integers(0, 2), how=hows)
    def reset_without_a_word(self, env: int, how: str) -> None:
        self.worlds[env % self.n_envs].reset(how)

    @rule(lazy=st.booleans(), compress=st.sampled_from(["", "zlib"]))
    def save_and_load(self, lazy: bool, compress: str) -> None:
        """A loaded buffer goes on exactly as the saved one would have."""
        self.buffer.save(self.folder, compress=compress)
        tables = {"market": TABLE}
        loaded = ReplayBuffer.load(self.folder, tables=tables, lazy=lazy)
        assert len(loaded) == len(self.buffer)
        if len(loaded):
            mine, theirs = self.buffer.sample(6, n_step=2), loaded.sample(6, n_step=2)
            assert mine.index.tolist() == theirs.index.tolist()
            assert same(mine.obs, theirs.obs)
            assert same(mine.next_obs, theirs.next_obs)
            assert same(mine.reward, theirs.reward)
        self.buffer = loaded

    @rule()
    def save_and_go_on(self) -> None:
        self.buffer.save(self.folder, keep=1)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    @rule(count=st.integers(1, 8))
    def sample(self, count: int) -> None:
        if not len(self.buffer):
            return
        batch = self.buffer.sample(count)
        flat = dict(zip(self.buffer.ordered().tolist(), self.stored(), strict=True))
        for at, place in enumerate(batch.index.tolist()):
            assert_is(batch, at, flat[place])

    def stored(self) -> list[Step]:
        sizes = [s.added - s.oldest for s in self.buffer.store.streams]
        pairs = zip(self.naive.stored(), sizes, strict=True)
        return [step for steps, size in pairs for step in steps[len(steps) - size :]]

    @invariant()
    def holds_the_same(self) -> None:
        if hasattr(self, "buffer"):
            rows_suffice = self.buffer.schema.stack == 1 and not self.is_tight
            assert_holds(self.buffer, self.naive, all_of_it=rows_suffice)


def stacked(lived: list[tuple[Any, Any, Step]]) -> tuple[Any, ...]:
    steps = [step for _, _, step in lived]
    return (
        together([given for given, _, _ in lived]),
        np.stack([step.action for step in steps]),
        np.array([step.reward for step in steps], np.float32),
        together([later for _, later, _ in lived]),
        np.array([step.terminated for step in steps]),
        np.array([step.truncated for step in steps]),
    )


def together(values: list[Any]) -> Any:
    if isinstance(values[0], dict):
        return {name: np.stack([value[name] for value in values]) for name in values[0]}
    return np.stack(values)


def part(values: Any, at: slice) -> Any:
    if isinstance(values, dict):
        return {name: value[at] for name, value in values.items()}
    return values[at]


TestAgainstAList = AgainstAList.TestCase
TestAgainstAList.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
