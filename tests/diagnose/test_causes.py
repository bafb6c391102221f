"""Causes from deep looks that the test made up."""

from typing import Any

import pytest

from ramledger.diagnose.causes import explain_leak
from ramledger.diagnose.finding import Cause
from ramledger.diagnose.timeline import build_timeline
from tests.diagnose.recorded import MIB, PID, generations, look, recording

LOG = "variables/t.py:run.log"


def explained(*looks: dict[str, Any], more: tuple[dict[str, Any], ...] = ()) -> Any:
    events = generations([100 + 6 * i for i in range(13)])
    return explain_leak(build_timeline(recording(*events, *looks, *more)), ())


def looks(**by_generation: Any) -> list[dict[str, Any]]:
    """Looks at generations 0, 4, 8, 12; each value is a function of the generation."""
    return [
        look(g, by_generation["accounts"](g),
             **{k: f(g) for k, f in by_generation.items() if k != "accounts"})
        for g in (0, 4, 8, 12)
    ]  # fmt: skip


def test_a_container_that_grows_is_named_with_its_path() -> None:
    container = lambda g: [  # noqa: E731
        {"path": "t.py:run.log", "account": LOG, "length": 10 * (g + 1), "type": "list",
         "of": "numpy.ndarray", "bytes": 6 * MIB * (g + 1)}
    ]  # fmt: skip
    found = explained(*looks(accounts=lambda g: {LOG: 6 * (g + 1)}, containers=container))
    assert found.cause is Cause.UNBOUNDED_CONTAINER
    assert found.culprit.path == "t.py:run.log"
    assert found.culprit.type == "numpy.ndarray"
    assert "t.py:run.log" in found.advice


def test_a_class_that_grows_each_generation_is_pinned() -> None:
    found = explained(
        *looks(
            accounts=lambda g: {"variables/<Env>": 6 * (g + 1)},
            counts=lambda g: {"t.Env": g + 1, "t.Trainer": 1, "dict": 5000 + 40 * g},
            user_classes=lambda g: ["t.Env", "t.Trainer"],
        )
    )
    assert found.cause is Cause.OBJECT_PINNED
    assert found.culprit.type == "t.Env"


def test_a_count_that_jumps_once_is_no_culprit() -> None:
    found = explained(
        *looks(
            accounts=lambda g: {LOG: 6 * (g + 1)},
            counts=lambda g: {"lib.Thing": 3 if g < 8 else 90},
        )
    )
    assert found.culprit.type != "lib.Thing"


@pytest.mark.parametrize("step", [1, 5])
def test_tensors_with_graphs_that_grow_in_number(step: int) -> None:
    found = explained(
        *looks(accounts=lambda g: {"native/in use": 6 * g}, tensors_with_graph=lambda g: step * g)
    )
    assert found.cause is Cause.GRAPH_RETENTION


def test_freed_memory_that_grows_is_the_allocators() -> None:
    found = explained(*looks(accounts=lambda g: {"allocator/free": 6 * g}))
    assert found.cause is Cause.ALLOCATOR_RETENTION


def test_native_memory_alone_is_a_native_leak() -> None:
    assert explained(*looks(accounts=lambda g: {"native/in use": 6 * g})).cause is Cause.NATIVE_LEAK


def test_native_memory_that_comes_with_figures_is_theirs() -> None:
    found = explained(
        *looks(
            accounts=lambda g: {"native/in use": 6 * g},
            counts=lambda g: {"plots.figure.Figure": g, "plots.Canvas": g, "plots.Line": 40 * g},
        )
    )
    assert found.cause is Cause.OBJECT_PINNED
    assert found.culprit.type == "plots.figure.Figure"


def test_garbage_with_the_collector_off() -> None:
    found = explained(
        *looks(
            accounts=lambda g: {"variables/<Env>": 6 * (g + 1)},
            counts=lambda g: {"t.Env": g + 1},
            user_classes=lambda g: ["t.Env"],
            gc_enabled=lambda g: False,
        )
    )
    assert found.cause is Cause.GC_OFF


@pytest.mark.parametrize(
    ("freed", "objects", "cause"), [(70, 50, Cause.GC_OFF), (0, 0, Cause.OBJECT_PINNED)]
)
def test_a_collector_that_never_runs_is_told_by_the_probe(
    freed: int, objects: int, cause: Cause
) -> None:
    probe = {"event": "probe", "pid": PID, "t": 15.0, "anon_bytes": 180 * MIB,
             "collected_objects": objects, "after_collect_bytes": 180 * MIB,
             "after_trim_bytes": (180 - freed) * MIB}  # fmt: skip
    found = explained(
        *looks(
            accounts=lambda g: {"variables/<Env>": 6 * (g + 1)},
            counts=lambda g: {"t.Env": g + 1},
            user_classes=lambda g: ["t.Env"],
        ),
        more=(probe,),
    )
    assert found.cause is cause


def test_without_looks_the_books_of_malloc_tell() -> None:
    books = tuple(
        {"event": "books", "pid": PID, "t": g + 1.01, "generation": g,
         "malloc_in_use_bytes": 50 * MIB, "malloc_free_bytes": 6 * g * MIB,
         "python_used_bytes": 9 * MIB}
        for g in range(13)
    )  # fmt: skip
    assert explained(more=books).cause is Cause.ALLOCATOR_RETENTION
    assert explained().cause is Cause.UNKNOWN
