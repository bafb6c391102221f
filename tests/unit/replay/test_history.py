"""Long stacks and short episodes: adding never fails, the oldest makes room, the rest is right."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramledger import ConfigError
from ramledger.replay import (
    Field,
    Frames,
    Goals,
    Hindsight,
    Prioritized,
    ReplayBuffer,
    Schema,
    SharedReader,
    SharedReplayBuffer,
)
from ramledger.replay.storage.layout import Layout, layout_of
from tests.support.naive_buffer import Array, NaiveBuffer, Step, assert_holds, assert_is

ACTION = np.zeros(2, np.float32)
STARTS = ("history", "repeat", "zeros")
ENDS = ("follows", "repeats", "zeros", "other")


@dataclass
class World:
    """One environment whose observation is the window of its latest frames."""

    rng: np.random.Generator
    stack: int
    start: str
    end: str
    length: int

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.at, self.window = 0, self.new(self.stack)
        if self.start == "repeat":
            self.window[:] = self.window[-1]
        elif self.start == "zeros":
            self.window[:-1] = 0

    def new(self, count: int) -> Array:
        return self.rng.integers(0, 250, (count, 2)).astype(np.float32)

    def step(self) -> Step:
        self.at += 1
        is_end = self.at == self.length
        here, kind = self.window, self.end if is_end else "follows"
        if kind == "follows":
            following = np.concatenate([here[1:], self.new(1)])
        elif kind == "repeats":
            following = here.copy()
        else:
            following = np.zeros_like(here) if kind == "zeros" else self.new(self.stack)
        self.window = following
        if is_end:
            self.begin()
        reward = float(self.rng.integers(0, 1 << 20))
        return Step(here, ACTION, reward, following, is_end, False)


def schema_of(stack: int) -> Schema:
    return Schema(Frames((2,), "float32", stack), action=Field((2,)))


def together(steps: list[Step]) -> tuple[Any, ...]:
    return (
        np.stack([step.obs for step in steps]),
        np.stack([step.action for step in steps]),
        np.array([step.reward for step in steps], np.float32),
        np.stack([step.next_obs for step in steps]),
        np.array([step.terminated for step in steps]),
        np.array([step.truncated for step in steps]),
    )


def live(buffer: ReplayBuffer, naive: NaiveBuffer, worlds: list[World], how: str, n: int) -> None:
    """Let every environment live about `n` steps."""
    if how == "add_step":
        for _ in range(n):
            steps = [world.step() for world in worlds]
            buffer.add_step(*together(steps))
            for env, step in enumerate(steps):
                naive.add(env, step)
        return
    for env, world in enumerate(worlds):
        steps = [world.step() for _ in range(n)]
        for step in steps:
            naive.add(env, step)
        if how == "extend":
            buffer.extend(*together(steps), env=env)
            continue
        for step in steps:
            buffer.add(step.obs, ACTION, step.reward, step.next_obs, step.terminated, env=env)


def assert_right(buffer: ReplayBuffer, naive: NaiveBuffer, *, all_of_it: bool) -> None:
    assert_holds(buffer, naive, all_of_it=all_of_it)
    possible = sum(len(steps) for steps in naive.stored())
    assert len(buffer) >= min(possible, buffer.least_capacity)
    assert buffer.used_bytes <= buffer.reserved_bytes or buffer.compress


stacks = st.one_of(st.integers(1, 12), st.sampled_from([31, 60, 126]))


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    stack=stacks,
    length=st.one_of(st.integers(1, 12), st.sampled_from([30, 45, 145])),
    start=st.sampled_from(STARTS),
    end=st.sampled_from(ENDS),
    n_envs=st.integers(1, 4),
    capacity=st.integers(4, 300),
    told=st.sampled_from([None, None, 30, 10_000]),
    compress=st.sampled_from(["", "", "zlib"]),
    hows=st.lists(st.sampled_from(["add", "extend", "add_step"]), min_size=2, max_size=5),
    seed=st.integers(0, 99),
)
def test_whatever_episodes_are_like(
    stack: int, length: int, start: str, end: str, n_envs: int, capacity: int,
    told: float | None, compress: str, hows: list[str], seed: int,
) -> None:  # fmt: skip
    """Nothing is raised, what is stored is what was added, and enough of it is."""
    rng = np.random.default_rng(seed)
    worlds = [World(rng, stack, start, end, length) for _ in range(n_envs)]
    buffer = ReplayBuffer(
        schema_of(stack), capacity, n_envs=n_envs, episode_length=told, compress=compress, seed=1
    )
    naive = NaiveBuffer(capacity // n_envs, n_envs)
    is_long = length >= (told or 30) and (stack == 1 or end != "other")
    for how in hows:
        live(buffer, naive, worlds, how, int(rng.integers(1, 2 + capacity // n_envs)))
        assert_right(buffer, naive, all_of_it=is_long)
        kept = kept_by_place(buffer, naive)
        batch = buffer.sample(16, n_step=3, gamma=1.0)
        for at, place in enumerate(batch.index.tolist()):
            steps = kept[place]
            assert_is(batch, at, Step(steps[0].obs, ACTION, sum(s.reward for s in steps),
                      steps[-1].next_obs, steps[-1].terminated, False))  # fmt: skip


def kept_by_place(buffer: ReplayBuffer, naive: NaiveBuffer) -> dict[int, list[Step]]:
    """Place -> the transition and up to two more of its episode."""
    found = []
    for stream, steps in zip(buffer.store.streams, naive.steps, strict=True):
        for at in range(stream.oldest, stream.added):
            run = steps[at : at + 3]
            last = next((i for i, s in enumerate(run) if s.terminated), len(run) - 1)
            found.append(run[: last + 1])
    return dict(zip(buffer.ordered().tolist(), found, strict=True))


@pytest.mark.parametrize(
    ("stack", "length", "capacity"),
    [(60, 30, 400), (504, 30, 400), (504, 145, 400), (60, 30, 2500)],
)
@pytest.mark.parametrize("n_envs", [1, 4])
@pytest.mark.parametrize("how", ["add", "extend", "add_step"])
def test_windows_of_short_episodes_fill_the_capacity(
    stack: int, length: int, capacity: int, n_envs: int, how: str
) -> None:
    """Every episode starts with real history and ends with the observation it had."""
    rng = np.random.default_rng(0)
    worlds = [World(rng, stack, "history", "repeats", length) for _ in range(n_envs)]
    buffer = ReplayBuffer(schema_of(stack), capacity, n_envs=n_envs)
    naive = NaiveBuffer(capacity // n_envs, n_envs)
    for _ in range(2 * capacity // length // n_envs):  # environments take turns
        live(buffer, naive, worlds, how, length)
        assert len(buffer) == sum(len(steps) for steps in naive.stored())
    assert_right(buffer, naive, all_of_it=True)


@pytest.mark.parametrize("how", ["add", "extend", "add_step"])
def test_a_stack_of_one_frame(how: str) -> None:
    buffer, naive = ReplayBuffer(schema_of(1), 50, n_envs=2), NaiveBuffer(25, 2)
    rng = np.random.default_rng(0)
    live(buffer, naive, [World(rng, 1, "history", "other", 4) for _ in range(2)], how, 40)
    assert_right(buffer, naive, all_of_it=True)
    frame = np.zeros(2, np.float32)
    with pytest.raises(ConfigError, match=r"shape \(2,\), the schema says \(1, 2\)"):
        buffer.add(frame, ACTION, 0.0, frame, False)


def test_a_next_observation_that_repeats_takes_no_rows() -> None:
    rng = np.random.default_rng(0)
    heads = []
    for end in ("follows", "repeats", "other"):
        buffer, naive = ReplayBuffer(schema_of(50), 1000), NaiveBuffer(1000)
        live(buffer, naive, [World(rng, 50, "history", end, 10)], "add", 100)
        assert_right(buffer, naive, all_of_it=True)
        heads.append(buffer.store.streams[0].head - buffer.store.arena.first_row)
    # ten episodes of ten steps: a stack, a row for each step, and for the last one or a stack
    assert heads == [10 * (50 + 10), 10 * (50 + 9), 10 * (50 + 9 + 50)]


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(
    stack=st.integers(1, 1000),
    capacity=st.integers(8, 100_000),
    n_envs=st.integers(1, 8),
    told=st.sampled_from([None, 1.0, 100.0, 1e9]),
    row=st.integers(1, 5000),
)
def test_what_is_kept_at_least(
    stack: int, capacity: int, n_envs: int, told: float | None, row: int
) -> None:
    """A sixtieth of the capacity, or one in two stacks where episodes are said to be long."""
    schema = Schema(Frames((row,), "uint8", stack))
    layout = layout_of(schema, capacity, None, n_envs, told)
    layout.check(schema)
    least = layout.least_transitions(stack)
    share = 1 / 60 if told is None else 1 / (2.5 * stack)
    assert max(1, int(share * layout.transitions)) <= least <= layout.transitions
    if told is None and stack == 1:
        assert least == layout.transitions


@pytest.mark.parametrize("stack", [2, 4, 60])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("capacity", [None, 500])
def test_a_budget_holds_whatever_is_added(stack: int, n_envs: int, capacity: int | None) -> None:
    rng = np.random.default_rng(0)
    schema = schema_of(stack)
    buffer = ReplayBuffer(schema, capacity, budget="64 KiB", n_envs=n_envs)
    assert buffer.reserved_bytes <= 64 << 10
    arrays = [*buffer.store.rows.values(), *buffer.store.steps.values()]
    arrays += [buffer.store.starts, buffer.store.flags, buffer.store.history]  # type: ignore[list-item]
    assert sum(array.nbytes for array in arrays) == buffer.reserved_bytes
    naive = NaiveBuffer(buffer.capacity // n_envs, n_envs)
    worlds = [World(rng, stack, "history", "other", 3) for _ in range(n_envs)]
    for how in ("add", "extend", "add_step"):
        live(buffer, naive, worlds, how, 700 // n_envs)
        assert_right(buffer, naive, all_of_it=False)


def test_what_is_left_of_a_budget_is_for_short_episodes() -> None:
    schema = schema_of(60)
    lean = layout_of(schema, None, "1 MiB", 1, None)
    wide = layout_of(schema, 2000, "1 MiB", 1, None)
    free = layout_of(schema, 2000, None, 1, None)
    assert wide.transitions == 2000 < lean.transitions
    assert wide.reserved_bytes <= 1 << 20
    rows = [found.chunks * found.chunk_rows for found in (wide, free)]
    assert rows[0] >= rows[1]


@pytest.mark.parametrize("stack", [1, 20])
@pytest.mark.parametrize("n_envs", [1, 2, 4])
@pytest.mark.parametrize("how", ["add", "add_step"])
def test_one_environment_that_owns_every_chunk(stack: int, n_envs: int, how: str) -> None:
    """It goes on where it can, the others get rows of it, and nothing that is left is wrong."""
    rng = np.random.default_rng(0)
    buffer = ReplayBuffer(schema_of(stack), 100, n_envs=n_envs)
    naive = NaiveBuffer(100 // n_envs, n_envs)
    arena = buffer.store.arena
    worlds = [World(rng, stack, "history", "follows", 50) for _ in range(n_envs)]
    step = worlds[0].step()
    naive.add(0, step)
    buffer.add(step.obs, ACTION, step.reward, step.next_obs, False)
    while arena.extend(arena.streams[0]):
        pass
    assert len(arena.streams[0].open_chunks) == arena.chunks
    if stack == 1:  # all at the same step: they are added at once
        for stream, steps in zip(arena.streams[1:], naive.steps[1:], strict=True):
            stream.added = stream.oldest = 1
            steps.append(step)
    for _ in range(200 // n_envs):
        live(buffer, naive, worlds, how, 1)
        assert_holds(buffer, naive, all_of_it=False)
    assert len(buffer) >= buffer.least_capacity


def test_an_environment_without_any_row_that_is_not_read() -> None:
    """Its own transitions make room where no others can."""
    buffer, naive = ReplayBuffer(schema_of(20), 100), NaiveBuffer(100)
    arena, rng = buffer.store.arena, np.random.default_rng(0)
    worlds = [World(rng, 20, "history", "other", 3)]
    live(buffer, naive, worlds, "add", 1)
    while arena.extend(arena.streams[0]):
        pass
    arena.streams[0].head = arena.streams[0].end  # all rows are taken by what was added
    live(buffer, naive, worlds, "add", 1)
    assert len(buffer) == 1
    live(buffer, naive, worlds, "add", 99)
    assert_right(buffer, naive, all_of_it=False)


def test_chunks_that_an_earlier_version_saved_as_open() -> None:
    """Nothing reads them: they come back like those that were closed."""
    buffer, naive = ReplayBuffer(schema_of(20), 100), NaiveBuffer(100)
    arena, rng = buffer.store.arena, np.random.default_rng(0)
    worlds = [World(rng, 20, "history", "follows", 10**6)]
    live(buffer, naive, worlds, "add", 1)
    state = arena.to_dict()
    stale = [arena.chunks - 2, arena.chunks - 1]
    state["streams"][0]["open_chunks"][:0] = [
        [stale[0], arena.span(stale[1])[0] + 19],
        [stale[1], 0],
    ]
    state["high_chunk"], state["free"] = arena.chunks, list(range(1, stale[0]))
    arena.restore(state)
    for _ in range(12):
        live(buffer, naive, worlds, "add", 100)
        assert_right(buffer, naive, all_of_it=True)


def test_rows_are_compressed_where_a_stream_goes_on_elsewhere() -> None:
    rng = np.random.default_rng(0)
    buffer = ReplayBuffer(schema_of(20), 300, n_envs=3, compress="zlib")
    naive = NaiveBuffer(100, 3)
    worlds = [World(rng, 20, "history", "repeats", 5) for _ in range(3)]
    for _ in range(30):
        live(buffer, naive, worlds, "add", 5)
        closed = sum(len(stream.closed_chunks) for stream in buffer.store.streams)
        assert buffer.store.cold[0].cold_rows >= closed * buffer.layout.chunk_rows
    assert closed > 10


def test_a_run_that_ends_with_what_it_had_is_still_added_at_once() -> None:
    rows = np.random.default_rng(0).normal(size=(700, 2)).astype(np.float32)
    windows = np.moveaxis(np.lib.stride_tricks.sliding_window_view(rows, 100, axis=0), -1, 1)
    action, reward = np.zeros((500, 2), np.float32), np.zeros(500, np.float32)
    ends = np.arange(500) == 499
    following = windows[1:501].copy()
    repeated = following.copy()
    repeated[-1] = windows[499]
    seconds = []
    for later in (following, repeated):
        buffer = ReplayBuffer(schema_of(100), 2000)
        taken = []
        for _ in range(5):
            started = time.process_time()
            buffer.extend(windows[:500], action, reward, later, ends)
            taken.append(time.process_time() - started)
        seconds.append(min(taken))
        batch = buffer.get(buffer.ordered()[-500:])
        assert np.array_equal(np.asarray(batch.next_obs), later)
    # a transition at a time takes twenty times as long
    assert seconds[1] < 8 * seconds[0]


@pytest.mark.parametrize(
    "sizes", [(10, 1, 2, 40, 0), (10, 1, 9, 32, 0), (10, 4, 8, 40, 0), (0, 1, 9, 40, 0)]
)
def test_a_layout_without_rows_for_every_environment_is_refused(sizes: Any) -> None:
    with pytest.raises(ConfigError, match="too few") as caught:
        ReplayBuffer(schema_of(20), n_envs=sizes[1], layout=Layout(*sizes))
    assert caught.value.hint


# ---- what depends on which transitions are stored ------------------------------------------------


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("how", ["add", "extend", "add_step"])
def test_what_made_room_is_never_drawn_by_priority(n_envs: int, how: str) -> None:
    rng = np.random.default_rng(0)
    buffer = ReplayBuffer(
        schema_of(12), 120, n_envs=n_envs, episode_length=10_000, prioritized=Prioritized(), seed=1
    )
    naive = NaiveBuffer(120 // n_envs, n_envs)
    worlds = [World(rng, 12, "history", "other", 2) for _ in range(n_envs)]
    live(buffer, naive, worlds, "add", 5)
    for _ in range(12):
        index = buffer.sample(32).index
        live(buffer, naive, worlds, how, 17)
        # errors of a batch that was drawn before arrive when some of it made room already
        buffer.update_priorities(index, np.full(32, 1e6))
        assert buffer.tree is not None
        assert set(np.flatnonzero(buffer.tree.leaves)) == set(buffer.ordered().tolist())
        assert set(buffer.sample(64).index.tolist()) <= set(buffer.ordered().tolist())
        assert_right(buffer, naive, all_of_it=False)


def test_sequences_and_goals_of_what_is_left() -> None:
    rng = np.random.default_rng(0)
    fields: dict[str, Any] = {"window": Frames((2,), "float32", 30)}
    fields |= {"achieved_goal": Field((1,)), "desired_goal": Field((1,))}
    schema = Schema(fields, action=Field((2,)), goals=Goals())
    buffer = ReplayBuffer(schema, 300, episode_length=10_000, seed=1)
    for episode in range(60):
        world = World(rng, 30, "history", "repeats", 7)
        for at in range(7):
            step, goal = world.step(), np.zeros(1, np.float32)
            here, there = (np.array([100 * episode + at + up], np.float32) for up in (0, 1))
            buffer.add(
                {"window": step.obs, "achieved_goal": here, "desired_goal": goal}, ACTION,
                float(100 * episode + at),
                {"window": step.next_obs, "achieved_goal": there, "desired_goal": goal},
                step.terminated,
            )  # fmt: skip
    assert buffer.least_capacity <= len(buffer) < 300
    found = buffer.sample_sequences(64, 5)
    for reward, mask in zip(found.reward, found.mask, strict=True):
        first = int(reward[0])
        assert mask.tolist() == [first % 100 + ahead < 7 for ahead in range(5)]
        assert reward[mask].tolist() == [first + ahead for ahead in range(int(mask.sum()))]
    batch = buffer.sample(64, hindsight=Hindsight(lambda a, d: -np.abs(a - d)[:, 0], ratio=1.0))
    assert isinstance(batch.obs, dict)
    achieved = batch.obs["achieved_goal"][:, 0]
    ahead = batch.obs["desired_goal"][:, 0] - achieved
    assert ((ahead >= 1) & (achieved % 100 + ahead <= 7)).all()


@pytest.mark.parametrize("compress", ["", "zlib"])
def test_a_save_in_the_background_while_room_is_made(tmp_path: Path, compress: str) -> None:
    rng = np.random.default_rng(0)
    buffer = ReplayBuffer(schema_of(40), 600, n_envs=2, episode_length=300, compress=compress)
    naive = NaiveBuffer(300, 2)
    worlds = [World(rng, 40, "history", end, 6) for end in ("repeats", "other")]
    for number in range(1, 4):
        live(buffer, naive, worlds, "add", 150)
        then, size = [list(steps) for steps in naive.steps], len(buffer)
        job = buffer.save_in_background(tmp_path)
        live(buffer, naive, worlds, "add", 100)
        job.wait()
        assert_right(buffer, naive, all_of_it=False)
        loaded = ReplayBuffer.load(tmp_path, lazy=number == 2)
        assert len(loaded) == size
        before = NaiveBuffer(300, 2)
        before.steps = then
        assert_right(loaded, before, all_of_it=False)


def test_readers_of_a_shared_buffer_see_what_is_left() -> None:
    rng = np.random.default_rng(0)
    buffer = SharedReplayBuffer(
        schema_of(12), 90, n_envs=3, episode_length=10_000, prioritized=Prioritized()
    )
    try:
        reader, naive = SharedReader(buffer.handle(), seed=1), NaiveBuffer(30, 3)
        worlds = [World(rng, 12, "history", "other", 2) for _ in range(3)]
        live(buffer, naive, worlds, "add", 4)
        for how in ("add", "extend", "add_step") * 3:
            index = reader.sample(20).index
            live(buffer, naive, worlds, how, 9)
            reader.update_priorities(index, np.full(20, 1e6))
            assert len(reader) == len(buffer) < 90
            batch, kept = reader.sample(64), kept_by_place(buffer, naive)
            for at, place in enumerate(batch.index.tolist()):
                assert_is(batch, at, kept[place][0])
    finally:
        buffer.close()
