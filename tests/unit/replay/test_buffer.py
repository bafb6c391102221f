"""Adding and sampling: what goes in comes out, and wrong input is refused before it is stored."""

import threading
from typing import Any

import numpy as np
import pytest

from ramledger import ConfigError
from ramledger.replay import Field, Frames, ReplayBuffer, Schema, TableWindow

VECTOR = Schema(Field((3,)), action=Field((2,)))
ZEROS = np.zeros(3, np.float32)
ACTION = np.zeros(2, np.float32)


def walk(length: int, seed: int = 0, width: int = 3) -> np.ndarray[Any, np.dtype[Any]]:
    return np.random.default_rng(seed).normal(size=(length + 1, width)).astype(np.float32)


def filled(capacity: int, steps: int, **arguments: Any) -> ReplayBuffer:
    buffer = ReplayBuffer(VECTOR, capacity, seed=3, **arguments)
    rows = walk(steps)
    for at in range(steps):
        buffer.add(rows[at], ACTION, float(at), rows[at + 1], at % 10 == 9)
    return buffer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": np.zeros(4, np.float32)}, r"obs has shape \(4,\), the schema says \(3,\)"),
        ({"next_obs": np.zeros((1, 3), np.float32)}, "shape"),
        ({"obs": np.zeros(3, complex)}, "dtype complex128"),
        ({"action": np.zeros(3, np.float32)}, "action has shape"),
        ({"action": np.array(["a", "b"])}, "action has dtype"),
        ({"reward": np.zeros(2, np.float32)}, "reward has shape"),
        ({"cost": 1.0}, "missing or unknown: cost"),
        ({"env": 1}, "between 0 and 0, got 1"),
        ({"env": -1}, "between 0 and 0, got -1"),
    ],
)
def test_wrong_input_is_refused_and_nothing_is_stored(change: dict[str, Any], message: str) -> None:
    buffer = filled(20, 5)
    before = buffer.get(buffer.ordered())
    good = {"obs": ZEROS, "action": ACTION, "reward": 0.0, "next_obs": ZEROS, "terminated": False}
    with pytest.raises(ConfigError, match=message):
        buffer.add(**{**good, **change})
    after = buffer.get(buffer.ordered())
    assert len(buffer) == 5
    assert np.asarray(before.obs).tobytes() == np.asarray(after.obs).tobytes()


def test_a_wider_float_is_rounded_as_numpy_does() -> None:
    buffer = ReplayBuffer(VECTOR, 4)
    value = np.array([0.1, 0.2, 0.3])
    buffer.add(value, [1.0, 2.0], 0, value, False)
    assert np.asarray(buffer.get([0]).obs)[0].tolist() == value.astype(np.float32).tolist()


def test_nan_is_refused_where_the_policy_says_so() -> None:
    broken = np.array([0, np.nan, 0], np.float32)
    ReplayBuffer(VECTOR, 4).add(broken, ACTION, 0.0, ZEROS, False)
    strict = ReplayBuffer(VECTOR, 4, nan="raise")
    for arguments in ((broken, ACTION, 0.0, ZEROS), (ZEROS, ACTION, np.nan, ZEROS)):
        with pytest.raises(ConfigError, match="NaN"):
            strict.add(*arguments, False)
    assert len(strict) == 0


@pytest.mark.parametrize("count", [0, -1])
def test_samples_of_nothing(count: int) -> None:
    with pytest.raises(ConfigError, match="sample size must be at least 1"):
        filled(4, 4).sample(count)


def test_an_empty_buffer_cannot_be_sampled() -> None:
    with pytest.raises(ConfigError, match="empty"):
        ReplayBuffer(VECTOR, 4).sample(1)


def test_more_samples_than_transitions_repeat_some() -> None:
    batch = filled(4, 3).sample(50)
    assert set(batch.index.tolist()) == {0, 1, 2}


def test_one_seed_gives_one_sequence_of_batches() -> None:
    first, second = filled(30, 50), filled(30, 50)
    for _ in range(3):
        assert first.sample(8).index.tolist() == second.sample(8).index.tolist()


def test_every_transition_is_equally_likely() -> None:
    buffer = filled(25, 60)
    counts = np.bincount(buffer.sample(50_000).index, minlength=25)
    # five standard deviations of a binomial count
    assert abs(counts - 2000).max() < 5 * np.sqrt(2000)


def test_streams_of_different_length_are_equally_likely() -> None:
    buffer = ReplayBuffer(VECTOR, 60, n_envs=3, seed=5)
    for env, steps in ((0, 4), (1, 33), (2, 11)):
        for at in range(steps):
            buffer.add(ZEROS, ACTION, 100 * env + at, ZEROS, False, env=env)
    reward = buffer.sample(40_000).reward
    kept = [0 + at for at in range(4)] + [100 + at for at in range(13, 33)]
    kept += [200 + at for at in range(11)]
    values, counts = np.unique(reward, return_counts=True)
    assert values.tolist() == kept
    mean = 40_000 / len(kept)
    assert abs(counts - mean).max() < 5 * np.sqrt(mean)


def test_arrays_of_an_earlier_batch_are_filled_again() -> None:
    square = np.zeros((2, 2), np.uint8)
    for schema, make in (
        (VECTOR, lambda at: np.full(3, at, np.float32)),
        (
            Schema(Frames((2, 2), "uint8", 3), action=Field((2,))),
            lambda at: np.arange(at, at + 3, dtype=np.uint8)[:, None, None] + square,
        ),
    ):
        buffer = ReplayBuffer(schema, 50, seed=1)
        for at in range(40):
            buffer.add(make(at), ACTION, at, make(at + 1), False)
        first = buffer.sample(16)
        again = buffer.sample(16, out=first)
        assert np.shares_memory(np.asarray(again.obs), np.asarray(first.obs))
        assert np.shares_memory(again.action, first.action)
        assert np.array_equal(np.asarray(again.obs)[:, 0].reshape(16, -1)[:, 0], again.reward)
        following = np.asarray(again.next_obs)[:, 0].reshape(16, -1)[:, 0]
        assert np.array_equal(following, again.reward + 1)
        assert np.shares_memory(np.asarray(again.next_obs), np.asarray(first.next_obs))


def test_no_places_are_a_batch_of_nothing() -> None:
    frames = ReplayBuffer(Schema(Frames((2, 2), "uint8", 3), action=Field((2,))), 8)
    stack = np.zeros((3, 2, 2), np.uint8)
    frames.add(stack, ACTION, 0.0, stack, False)
    for buffer, shape in ((filled(5, 5), (0, 3)), (frames, (0, 3, 2, 2))):
        batch = buffer.get([])
        assert np.asarray(batch.obs).shape == np.asarray(batch.next_obs).shape == shape


def test_stacks_with_gaps_in_memory_are_stored_like_others() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (30, 2, 2), dtype=np.uint8)
    wide = np.zeros((30, 2, 4), np.uint8)
    wide[..., ::2] = frames
    buffer = ReplayBuffer(Schema(Frames((2, 2), "uint8", 3), action=Field((2,))), 27)
    for at in range(27):
        source = wide[..., ::2] if at % 3 else frames
        buffer.add(source[at : at + 3], ACTION, float(at), source[at + 1 : at + 4], False)
    batch = buffer.get(np.arange(27))
    for at in range(27):
        assert np.array_equal(np.asarray(batch.obs)[at], frames[at : at + 3])
        assert np.array_equal(np.asarray(batch.next_obs)[at], frames[at + 1 : at + 4])
    assert buffer.store.streams[0].head - buffer.store.arena.first_row <= 30


def test_tensors_share_the_memory_of_a_batch() -> None:
    torch = pytest.importorskip("torch")
    batch = filled(20, 20).sample(4)
    tensors = batch.torch()
    assert isinstance(tensors.obs, torch.Tensor)
    tensors.obs[0, 0] = 17
    assert np.asarray(batch.obs)[0, 0] == 17


def test_a_final_observation_is_the_next_one_and_the_reset_is_not() -> None:
    buffer = ReplayBuffer(VECTOR, 20, n_envs=2)
    rows = walk(8)
    buffer.add_step(
        rows[:2], np.zeros((2, 2), np.float32), np.zeros(2, np.float32), rows[2:4],
        [False, False], [True, False], final_obs={0: rows[7]},
    )  # fmt: skip
    batch = buffer.get([0, 1])
    assert np.array_equal(np.asarray(batch.next_obs), rows[[7, 3]])
    assert batch.truncated.tolist() == [True, False]


def test_windows_of_a_table_are_positions_and_come_back_whole() -> None:
    table = walk(60, width=4)
    schema = Schema(TableWindow("market", 10), action=Field((2,)))
    buffer = ReplayBuffer(schema, 30, tables={"market": table})
    for at in range(9, 29):
        # a view of the table itself is as good as its position
        here = table[at - 9 : at + 1] if at % 2 else at
        buffer.add(here, ACTION, at, at + 1, False)
    batch = buffer.sample(12)
    for number, at in enumerate(batch.reward.astype(int)):
        assert np.array_equal(np.asarray(batch.obs)[number], table[at - 9 : at + 1])
        assert np.array_equal(np.asarray(batch.next_obs)[number], table[at - 8 : at + 2])
    assert buffer.store.rows["obs"].itemsize == 4


@pytest.mark.parametrize("value", [8, 61, -1, np.zeros((10, 4), np.float32), np.zeros((9, 4))])
def test_windows_that_are_not_in_the_table(value: Any) -> None:
    schema = Schema(TableWindow("market", 10), action=Field((2,)))
    buffer = ReplayBuffer(schema, 30, tables={"market": walk(60, width=4)})
    with pytest.raises(ConfigError):
        buffer.add(value, ACTION, 0.0, 20, False)
    assert len(buffer) == 0


def test_overlapping_windows_are_found_and_stored_once() -> None:
    rows = np.random.default_rng(0).normal(size=(400, 6)).astype(np.float32)
    schema = Schema(Frames((6,), "float32", 50), action=Field((2,)))
    copied, viewed = ReplayBuffer(schema, 300), ReplayBuffer(schema, 300)
    windows = np.lib.stride_tricks.sliding_window_view(rows, 50, axis=0).transpose(0, 2, 1)
    for at in range(300):
        copied.add(windows[at].copy(), ACTION, at, windows[at + 1].copy(), at % 100 == 99)
    end = np.arange(300) % 100 == 99
    action, reward = np.zeros((300, 2), np.float32), np.arange(300, dtype=np.float32)
    viewed.extend(windows[:300], action, reward, windows[1:301], end)
    for buffer in (copied, viewed):
        stream = buffer.store.streams[0]
        assert stream.head - buffer.store.arena.first_row == 300 + 3 * 50
        batch = buffer.sample(64)
        for number, at in enumerate(batch.reward.astype(int)):
            assert np.array_equal(np.asarray(batch.obs)[number], windows[at])
            assert np.array_equal(np.asarray(batch.next_obs)[number], windows[at + 1])


def test_an_array_that_the_environment_reuses_is_not_trusted() -> None:
    """The same array object with other content is another observation."""
    buffer = ReplayBuffer(VECTOR, 10)
    shared = np.zeros(3, np.float32)
    for at in range(4):
        shared[:] = at
        buffer.add(shared, ACTION, at, shared, False)
    batch = buffer.get(buffer.ordered())
    assert np.asarray(batch.obs)[:, 0].tolist() == [0, 1, 2, 3]
    assert np.asarray(batch.next_obs)[:, 0].tolist() == [0, 1, 2, 3]


def test_nothing_is_added_by_an_empty_batch() -> None:
    buffer = ReplayBuffer(Schema(Field((3,))), 10)
    rows, none = np.zeros((5, 3), np.float32), np.zeros(0, np.float32)
    buffer.extend(rows[1:1], none, none, rows[2:2], none.astype(bool))
    assert len(buffer) == buffer.total_added == 0


def test_one_writer_and_many_readers() -> None:
    """Readers see whole transitions only, while the ring wraps under them."""
    buffer = ReplayBuffer(Schema(Field((64,)), action=Field((2,))), 256, seed=0)
    row = np.zeros(64, np.float32)
    buffer.add(row, ACTION, 0.0, row + 1, False)
    stop, torn = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            batch = buffer.sample(32)
            obs, following = np.asarray(batch.obs), np.asarray(batch.next_obs)
            wanted = batch.reward[:, None]
            if not ((obs == wanted).all() and (following == wanted + 1).all()):
                torn.append(batch)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for at in range(1, 6000):
        buffer.add(row + at, ACTION, at, row + at + 1, False)
    stop.set()
    for reader in readers:
        reader.join()
    assert not torn
    assert len(buffer) == 256


# ---- dtypes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (Frames((2,), stack=3), np.full((3, 2), 0.5, np.float32), "float32, the schema says uint8"),
        (Field((2,), "uint8"), np.array([1.0, 2.0]), 'dtype="float64"'),
        (Field((2,), "uint8"), np.array([1, 300]), "does not fit"),
        (Field((2,), "uint8"), np.array([1, 300], np.uint16), "does not fit"),
        (Field((2,), "uint64"), np.array([1, -1]), "does not fit"),
        (Field((2,), "int8"), np.array([1, 128]), "does not fit"),
        (Field((2,), "int64"), np.array([1, 1 << 63], np.uint64), "does not fit"),
        (Field((2,), "bool"), np.array([1, 2]), "does not fit"),
        (Field((2,)), np.array([1.0, 1j]), "lose data"),
        (Field((2,)), np.array([None, 1.0]), "give numbers"),
        (Field((2,)), [[1.0], [1.0, 2.0]], "cannot be made an array"),
    ],
)
def test_what_a_dtype_cannot_hold_is_refused(kind: Any, value: Any, why: str, many: bool) -> None:
    """In every kind of field, and the fix is named."""
    schemas = [Schema(kind, action=Field((2,)))]
    if isinstance(kind, Field):
        schemas += [Schema(Field((2,)), action=kind), Schema(Field((2,)), extra={"cost": kind})]
        schemas += [Schema(Field((2,)), reward=kind)]
    for schema in schemas:
        buffer = ReplayBuffer(schema, 8)
        given: dict[str, Any] = {"obs": np.zeros(2), "next_obs": np.zeros(2), "terminated": False}
        given |= {name: np.zeros(field.shape) for name, field in schema.steps.items()}
        for name, field in {**schema.observations, **schema.steps}.items():
            if field is kind:
                given[name] = value
        if schema.observation is kind:
            given["next_obs"] = value
        if many:
            given = {name: [found] for name, found in given.items()}
        with pytest.raises(ConfigError) as caught:
            (buffer.extend if many else buffer.add)(**given)
        assert why in f"{caught.value} {caught.value.hint}"
        assert len(buffer) == 0


def test_what_is_too_large_for_a_float_is_infinite_as_in_numpy() -> None:
    """One wild value of a simulation must not end a training."""
    buffer = ReplayBuffer(VECTOR, 4)
    with pytest.warns(RuntimeWarning, match="overflow"):
        buffer.add(np.array([1e39, 0, 1]), ACTION, 1.0, ZEROS, False)
    assert np.asarray(buffer.get([0]).obs)[0].tolist() == [np.inf, 0, 1]


@pytest.mark.parametrize("value", [[3, 250], np.array([3, 250]), np.array([3, 250], np.int16)])
def test_integers_that_fit_are_taken_as_they_are(value: Any) -> None:
    buffer = ReplayBuffer(Schema(Field((2,), "uint8")), 4)
    buffer.add(value, 1, True, value, False)
    assert np.asarray(buffer.get([0]).obs).tolist() == [[3, 250]]


@pytest.mark.parametrize("reward", [0.5, np.float32(0.5), np.float64(0.5)])
def test_a_reward_is_not_cut_off_to_an_integer(reward: Any) -> None:
    buffer = ReplayBuffer(Schema(Field((3,)), reward=Field((), "int64")), 4)
    action = np.zeros((), np.float32)
    with pytest.raises(ConfigError, match="reward has dtype float"):
        buffer.add(ZEROS, action, reward, ZEROS, False)
    buffer.add(ZEROS, action, 7, ZEROS, False)
    assert buffer.get([0]).reward.tolist() == [7]


# ---- windows that are no views -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (lambda rows: rows.copy(), "copy of rows 20 to 29", "last row, 29, or a view"),
        (lambda rows: rows.astype(np.float64), "dtype float64", "register the table as float64"),
        (lambda rows: rows * 2, "in no 10 consecutive rows", 'Frames((4,), "float32", 10)'),
        (lambda rows: 1 << 32, "outside of table", "9 to 60"),
        (lambda rows: (1 << 32) + 20, "outside of table", "9 to 60"),
    ],
)
def test_windows_that_are_no_views_say_what_to_pass(change: Any, message: str, hint: str) -> None:
    table = walk(60, width=4)
    schema = Schema(TableWindow("market", 10), action=Field((2,)))
    buffer = ReplayBuffer(schema, 30, tables={"market": table})
    with pytest.raises(ConfigError, match=message) as caught:
        buffer.add(change(table[20:30]), ACTION, 0.0, 30, False)
    assert hint in caught.value.hint
    assert len(buffer) == 0
    # the views that the hint names
    rows = buffer.tables["market"].rows
    buffer.add(rows[20:30], ACTION, 0.0, rows[21:31], False)
    assert np.array_equal(np.asarray(buffer.get([0]).next_obs)[0], table[21:31])


def test_a_copy_is_found_behind_rows_that_begin_like_it() -> None:
    table = np.zeros((5000, 3000), np.float32)  # more than is compared at a time
    table[4000] = 1
    schema = Schema(TableWindow("market", 3), action=Field((2,)))
    buffer = ReplayBuffer(schema, 30, tables={"market": table})
    with pytest.raises(ConfigError, match="copy of rows 3998 to 4000 "):
        buffer.add(table[3998:4001].copy(), ACTION, 0.0, 30, False)
