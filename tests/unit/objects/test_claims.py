"""Claims end with their objects and never keep them alive."""

import weakref

import numpy as np
import pytest

from ramledger.errors import ConfigError
from ramledger.objects.claims import Claims


class Buffer:
    """Something to claim."""


def test_a_claim_ends_with_its_object() -> None:
    claims = Claims()
    buffer = Buffer()
    alive = weakref.ref(buffer)
    claims.add("replay", buffer)
    assert claims.living()["replay"] == [buffer]
    del buffer
    assert alive() is None
    assert claims.living() == {}


def test_claims_add_up_and_can_be_released() -> None:
    claims = Claims()
    first, second = Buffer(), np.zeros(3)
    claims.add("data", first)
    claims.add("/data/", second)
    assert len(claims.living()["data"]) == 2
    claims.release("data")
    assert claims.living() == {}


@pytest.mark.parametrize("name", ["", "  ", "/", "x" * 201, None, 7])
def test_bad_names_are_refused(name: object) -> None:
    with pytest.raises(ConfigError) as caught:
        Claims().add(name, Buffer())  # type: ignore[arg-type]
    assert caught.value.hint


@pytest.mark.parametrize("unclaimable", [[1], {"a": 1}, (1, 2), 7, "text"])
def test_what_allows_no_weak_reference_is_refused_with_a_hint(unclaimable: object) -> None:
    with pytest.raises(ConfigError, match="cannot be claimed"):
        Claims().add("data", unclaimable)


def test_nothing_to_claim() -> None:
    with pytest.raises(ConfigError, match="nothing to claim"):
        Claims().add("data")
