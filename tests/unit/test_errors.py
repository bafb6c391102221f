"""Errors carry their facts across processes, and the tree drawn on top is the tree that exists."""

import pickle
import re
from collections.abc import Iterator

import pytest

from ramledger import errors
from ramledger.errors import (
    CheckpointError,
    ConfigError,
    MeasureError,
    NotPermittedError,
    OverBudgetError,
    ProcessGoneError,
    RamledgerError,
    RecordingError,
)

EXAMPLES = [
    RamledgerError("plain", hint="do this"),
    ConfigError("bad option", hint="write it so"),
    OverBudgetError("too large", needed_bytes=3, limit_bytes=2, hint="shrink it"),
    MeasureError("no answer", pid=7, hint="try again"),
    ProcessGoneError("gone", pid=8),
    NotPermittedError("not yours", pid=9, hint="ask root"),
    RecordingError("torn", hint="record again"),
    CheckpointError("damaged", hint="use --force"),
]


def each_class(root: type[RamledgerError] = RamledgerError) -> Iterator[type[RamledgerError]]:
    yield root
    for child in root.__subclasses__():
        yield from each_class(child)


def test_there_is_an_example_of_every_error() -> None:
    defined = {kind for kind in each_class() if kind.__module__ == errors.__name__}
    assert {type(error) for error in EXAMPLES} == defined


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_keeps_type_message_and_facts(error: RamledgerError, protocol: int) -> None:
    copy = pickle.loads(pickle.dumps(error, protocol))
    assert type(copy) is type(error)
    assert str(copy) == str(error) == error.message
    assert vars(copy) == vars(error)


def test_an_error_can_be_pickled_again_after_arriving() -> None:
    error = OverBudgetError("too large", needed_bytes=3, limit_bytes=2)
    twice = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(error))))
    assert (twice.needed_bytes, twice.limit_bytes) == (3, 2)


def test_config_error_is_a_value_error() -> None:
    assert issubclass(ConfigError, ValueError)


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    assert drawn_parents(errors.__doc__ or "") == {
        kind.__name__: next(base.__name__ for base in kind.__bases__)
        for kind in each_class()
        if kind.__module__ == errors.__name__
    }


def drawn_parents(docstring: str) -> dict[str, str]:
    """Child to parent, read from the box drawing: depth is how far a name is indented."""
    parents: dict[str, str] = {}
    names_by_depth: dict[int, str] = {}
    for match in re.finditer(r"^([│├└─ ]*)(\w+Error)\b", docstring, re.MULTILINE):
        depth = len(match[1]) // 4
        names_by_depth[depth] = match[2]
        parents[match[2]] = names_by_depth[depth - 1] if depth else "Exception"
    return parents
