"""Schemas are plain data with known sizes, and say no to what makes no sense."""

import json
from typing import Any

import numpy as np
import pytest

from ramledger import ConfigError, OverBudgetError
from ramledger.replay import (
    Field,
    Frames,
    Goals,
    ReplayBuffer,
    Schema,
    TableWindow,
    bytes_per_transition,
    bytes_per_transition_with_history,
)
from ramledger.replay.storage.layout import layout_of

VECTOR = Schema(Field((71,)), action=Field((7,)))
ATARI = Schema(Frames((84, 84), "uint8", 4), action=Field((), "int64"))
WINDOWS = Schema(Frames((117, 5), "float32", 504), action=Field((7,)))
REPORTED = Schema(TableWindow("market", 504), action=Field((108, 2)))


@pytest.mark.parametrize("schema", [VECTOR, ATARI, WINDOWS, REPORTED])
def test_a_schema_survives_json(schema: Schema) -> None:
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_a_dict_schema_with_goals_survives_json() -> None:
    fields = {"achieved_goal": Field((3,)), "desired_goal": Field((3,)), "observation": Field((9,))}
    schema = Schema(fields, action=Field((2,)), extra={"cost": Field()}, goals=Goals())
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_bytes_are_known_before_anything_is_allocated() -> None:
    # one row of 71 float32, 7 float32 of action, the reward, the start row and the flags
    assert bytes_per_transition(VECTOR) == 71 * 4 + 7 * 4 + 4 + 4 + 1
    assert bytes_per_transition(ATARI) == 84 * 84 + 2 + 8 + 4 + 4 + 1
    assert bytes_per_transition(REPORTED) == 4 + 108 * 2 * 4 + 4 + 4 + 1
    with_heads = bytes_per_transition_with_history(WINDOWS, 1000)
    assert with_heads == pytest.approx((117 * 5 * 4 + 2) * 1.504 + 28 + 4 + 5)


def test_the_arrays_take_what_the_layout_says() -> None:
    buffer = ReplayBuffer(VECTOR, 5000, n_envs=4)
    arrays = [*buffer.store.rows.values(), *buffer.store.steps.values()]
    arrays += [buffer.store.starts, buffer.store.flags]
    assert sum(array.nbytes for array in arrays) == buffer.reserved_bytes


@pytest.mark.parametrize("schema", [VECTOR, ATARI, WINDOWS])
@pytest.mark.parametrize("budget", ["64 MiB", "1 GiB", 123_456_789])
@pytest.mark.parametrize("n_envs", [1, 8])
def test_a_budget_is_used_and_never_exceeded(schema: Schema, budget: Any, n_envs: int) -> None:
    from ramledger.units import parse_bytes

    layout = layout_of(schema, None, budget, n_envs, None)
    limit = parse_bytes(budget)
    spare = 4 * n_envs * layout.chunk_rows * schema.row_bytes + schema.step_bytes * n_envs
    assert limit - spare < layout.reserved_bytes <= limit


def test_a_full_buffer_stays_within_its_budget() -> None:
    buffer = ReplayBuffer(Schema(Field((50,))), budget="300 KiB", seed=1)
    rng = np.random.default_rng(0)
    for step in range(6 * buffer.capacity):
        # ends are frequent, so rows run out before transitions do
        buffer.add(rng.normal(size=50), 0.0, 0.0, rng.normal(size=50), step % 3 == 0)
        assert buffer.used_bytes <= buffer.reserved_bytes <= 300 * 1024
    assert 0.4 * buffer.capacity < len(buffer) <= buffer.capacity


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capacity": 0}, "at least 1, one transition per environment, got 0"),
        ({"capacity": 3, "n_envs": 4}, "at least 4, one transition per environment, got 3"),
        ({}, "needs a capacity or a budget"),
        ({"capacity": 10, "n_envs": 0}, "n_envs must be at least 1, got 0"),
        ({"capacity": 10, "nan": "maybe"}, "nan must be"),
        ({"capacity": 10, "episode_length": 0}, "episode_length must be at least 1, got 0"),
        ({"capacity": 1 << 40}, "rows"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        ReplayBuffer(VECTOR, **arguments)
    assert caught.value.hint or "must be" in str(caught.value)


def test_a_budget_below_the_smallest_buffer() -> None:
    with pytest.raises(OverBudgetError) as caught:
        ReplayBuffer(WINDOWS, budget="1 MiB")
    assert caught.value.needed_bytes > caught.value.limit_bytes == 1 << 20


@pytest.mark.parametrize(
    "make",
    [
        lambda: Field((0, 3)),
        lambda: Field((3,), "object"),
        lambda: Field((3,), ">f4"),
        lambda: Frames((3,), stack=0),
        lambda: Frames((3,), axis=1),
        lambda: TableWindow("", 3),
        lambda: Schema(Field(), extra={"reward": Field()}),
        lambda: Schema({}),
        lambda: Schema(Field(), extra={"terminated": Field()}),
        lambda: ReplayBuffer(Schema(Field(), extra={"size": Field()}), 10),
        lambda: Schema({"a": Field()}, goals=Goals()),
        lambda: Schema.from_dict({"observation": 3}),
        lambda: ReplayBuffer(REPORTED, 10),
        lambda: ReplayBuffer(REPORTED, 10, tables={"market": np.zeros((3, 2))}),
    ],
)  # fmt: skip
def test_schemas_that_make_no_sense(make: Any) -> None:
    with pytest.raises(ConfigError):
        make()
