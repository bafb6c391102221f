"""Replay buffers that people write themselves are recognized by what they hold."""

from collections import deque, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from ramledger.objects.replays.transitions import TransitionContent, transition_content

Array = np.ndarray[Any, Any]
Transition = namedtuple("Transition", "state action next_state reward done")


@dataclass
class Step:
    obs: Array
    action: int
    reward: float
    following: Array
    done: bool


def steps(count: int = 300, shape: tuple[int, ...] = (6,), episode: int = 50) -> Iterator[Any]:
    rng = np.random.default_rng(0)
    state = rng.random(shape)
    for number in range(count):
        following, done = rng.random(shape), number % episode == episode - 1
        yield state, int(rng.integers(4)), float(rng.random()), following, done
        state = rng.random(shape) if done else following


def found(container: Any) -> TransitionContent:
    content = transition_content(container, len(container))
    assert content is not None
    return content


def kinds(content: TransitionContent) -> dict[str, str]:
    return {field.name: field.kind for field in content.fields}


FORMS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "tuples": (lambda *parts: parts, ["0", "3"]),
    "lists": (lambda *parts: list(parts), ["0", "3"]),
    "named tuples": (
        lambda s, a, r, n, d: Transition(s, a, n, r, d), ["state", "next_state"],
    ),
    "dictionaries": (
        lambda s, a, r, n, d: {"s": s, "a": a, "r": r, "s2": n, "end": d}, ["s", "s2"],
    ),
    "instances": (Step, ["obs", "following"]),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [list, deque])
def test_whatever_transitions_are_made_of(form: str, kind: Callable[[Any], Any]) -> None:
    make, names = FORMS[form]
    content = found(kind(make(*parts) for parts in steps()))
    named = kinds(content)
    assert [name for name in named if "observation" in named[name]] == names
    assert named[names[0]] == "observation" and named[names[1]] == "next observation"
    assert sorted(kind for kind in named.values() if "observation" not in kind) == [
        "flag", "number", "whole number",
    ]  # fmt: skip


def test_what_two_transitions_share_is_not_stored_twice() -> None:
    shared = found(list(steps()))
    assert shared.stored_twice == 0
    copied = found([(s.copy(), a, r, n.copy(), d) for s, a, r, n, d in steps()])
    assert copied.stored_twice == 1
    assert 0 < copied.breaks < 0.1  # an episode has 50 steps


def test_environments_that_take_turns() -> None:
    each = [list(steps(count=100)) for _ in range(1)]
    several = [[(s + env, a, r, n + env, d) for s, a, r, n, d in each[0]] for env in range(4)]
    mixed = [one for together in zip(*several, strict=True) for one in together]
    assert kinds(found(mixed))["3"] == "next observation"


def windows(length: int, count: int = 200, rows: int = 3) -> Iterator[Any]:
    table = np.random.default_rng(0).random((length + count + 1, rows)).astype(np.float32)
    for end in range(length, length + count):
        here, there = table[end - length : end].copy(), table[end - length + 1 : end + 1].copy()
        yield here, 0.5, 1.0, there, False


def test_windows_overlap() -> None:
    content = found(deque(windows(30)))
    assert (content.moved_rows, content.axis) == (1, 0)
    assert content.stored_twice == 1


@pytest.mark.parametrize(("axis", "dtype"), [(0, np.uint8), (-1, np.uint8), (0, np.float32)])
def test_stacked_frames_overlap(axis: Literal[0, -1], dtype: Any) -> None:
    frames = np.random.default_rng(0).integers(0, 255, (130, 20, 20)).astype(dtype)
    stacks = [np.stack(list(frames[at : at + 4]), axis=axis) for at in range(126)]
    content = found([(stacks[i], 1, 0.0, stacks[i + 1], False) for i in range(125)])
    assert (content.moved_rows, content.axis) == (1, axis)
    assert content.fits_bytes == (dtype is np.float32)


def test_a_batch_of_one_is_no_stack() -> None:
    content = found([(h[None], a, r, t[None], d) for h, a, r, t, d in windows(30)])
    assert (content.moved_rows, content.axis) == (1, 0)


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    tensors = [(torch.tensor(s), a, r, torch.tensor(n), d) for s, a, r, n, d in steps()]
    content = found(tensors)
    assert content.fields[0].dtype == "float64"
    assert content.stored_twice == 1


def test_an_observation_of_several_arrays() -> None:
    content = found([((s, s[:2]), a, r, (n, n[:2]), d) for s, a, r, n, d in steps()])
    assert kinds(content)["0"] == "observation"
    assert not content.fields[0].is_whole


@pytest.mark.parametrize(
    "container",
    [
        [(np.random.default_rng(i).random(6), i % 10, 0.5) for i in range(100)],  # images, labels
        [{"step": i, "loss": 0.5, "reward": 1.0} for i in range(100)],  # a log
        [np.random.default_rng(i).random(6) for i in range(100)],
        [(np.full(6, i), 1, np.full(6, -i)) for i in range(100)],
        [(np.zeros(6), 1, np.zeros(6)) for _ in range(100)],  # nothing moves
        list(range(1000)),
        [[i] * 5 for i in range(100)],
        [None] * 100,
        [() for _ in range(100)],
        [(1, 2, 3) if i % 2 else (1, 2) for i in range(100)],
        list(steps(count=20)),  # too few to tell
    ],
)  # fmt: skip
def test_what_is_no_replay_buffer(container: Any) -> None:
    assert transition_content(container, len(container)) is None


def test_arrays_of_objects_and_views_with_gaps_are_left_alone() -> None:
    odd = [(np.array([None, 1]), 1, 2, np.array([None, 1]), False) for _ in range(100)]
    gaps = [(np.zeros((4, 4))[:, ::2], 1, 2, np.zeros((4, 4))[:, ::2], False) for _ in range(100)]
    for container in (odd, gaps):
        assert transition_content(container, 100) is None


def found_in(container: Any, length: int) -> dict[str, str]:
    content = transition_content(container, length)
    return kinds(content) if content is not None else {}


def test_a_container_that_shrinks_meanwhile() -> None:
    container = deque(steps())
    assert found_in(container, 10_000) == found_in(container, 300)
