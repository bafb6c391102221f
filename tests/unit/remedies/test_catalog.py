"""Which remedies there are, and how they reach a process."""

import json

import pytest

from ramledger.errors import ConfigError
from ramledger.remedies.catalog import (
    APPLY_VARIABLE,
    REMEDIES,
    asked_of,
    environment_for,
    parse_apply,
)
from ramledger.remedies.malloc_choice import DEFAULT
from ramledger.remedies.start import _INSTALL


def test_auto_takes_what_is_exact_and_pays() -> None:
    found = parse_apply("auto")
    assert found == {"replay": "", "rollout": "", "workers": ""}
    assert all(REMEDIES[name].is_exact for name in found)


def test_options_go_with_their_remedy() -> None:
    assert parse_apply(" replay=lz4, malloc ") == {"replay": "lz4", "malloc": ""}
    assert parse_apply("auto,replay=lz4")["replay"] == "lz4"


@pytest.mark.parametrize("text", ["", ",", "replays", "replay=zip", "malloc=lz4", "auto=x"])
def test_what_does_not_exist_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_apply(text)
    assert caught.value.hint


def test_the_choice_reaches_the_process() -> None:
    asked = parse_apply("malloc,workers")
    found = environment_for(asked, {}, DEFAULT)
    assert found["MALLOC_MMAP_THRESHOLD_"] == "1048576"
    assert asked_of(found) == {"malloc": DEFAULT.why, "workers": ""}


def test_variables_that_the_user_set_stay() -> None:
    kept = environment_for(parse_apply("malloc"), {"MALLOC_MMAP_THRESHOLD_": "65536"}, DEFAULT)
    assert list(kept) == [APPLY_VARIABLE]
    assert list(environment_for(parse_apply("workers"), {}, DEFAULT)) == [APPLY_VARIABLE]


@pytest.mark.parametrize("text", ["", "{", "[]", "3", json.dumps({"unknown": ""})])
def test_a_variable_that_is_not_ours_asks_for_nothing(text: str) -> None:
    assert asked_of({APPLY_VARIABLE: text}) == {}


def test_every_remedy_can_be_installed() -> None:
    assert _INSTALL.keys() == REMEDIES.keys()
