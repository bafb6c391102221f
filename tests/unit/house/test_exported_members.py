"""What `ramledger` promises in `__all__` is there, and the errors are all promised."""

from importlib.metadata import version

import pytest

import ramledger
from ramledger import errors


@pytest.mark.parametrize("name", ramledger.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(ramledger, name) is not None
    assert name in dir(ramledger)


def test_every_error_is_public() -> None:
    defined = {name for name, value in vars(errors).items() if isinstance(value, type)}
    defined.discard("Any")
    assert defined <= set(ramledger.__all__)
    assert all(getattr(ramledger, name) is getattr(errors, name) for name in defined)


def test_the_version_is_the_installed_one() -> None:
    assert ramledger.__version__ == version("ramledger")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'snapshots'"):
        ramledger.snapshots  # noqa: B018


def test_the_list_is_sorted_and_without_repeats() -> None:
    assert ramledger.__all__ == sorted(set(ramledger.__all__))
