"""Claims: the user says what an object holds. Only weak references are kept where possible."""

import weakref
from collections.abc import Callable
from typing import Any

from ramledger.errors import ConfigError
from ramledger.fork_lock import ForkLock

_MAX_NAME = 200


class Claims:
    """Named roots. A claim ends with its object: it never keeps anything alive."""

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._claims: dict[str, list[Callable[[], Any]]] = {}

    def add(self, name: str, *objects: Any) -> None:
        """Book everything that `objects` hold to the account `name`."""
        account = _checked_name(name)
        if not objects:
            raise ConfigError(
                f"nothing to claim for {name!r}", hint='pass the object: claim("replay", buffer)'
            )
        references = [_reference(obj) for obj in objects]
        with self._lock:
            known = self._claims.setdefault(account, [])
            known[:] = [reference for reference in known if reference() is not None]
            known += references

    def release(self, name: str) -> None:
        """Forget a claim."""
        with self._lock:
            self._claims.pop(name, None)

    def living(self) -> dict[str, list[Any]]:
        """Claimed objects that are still alive, by account."""
        with self._lock:
            references = {name: list(found) for name, found in self._claims.items()}
        living = {
            name: [obj for reference in found if (obj := reference()) is not None]
            for name, found in references.items()
        }
        return {name: objects for name, objects in living.items() if objects}


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not name.strip("/ ") or len(name) > _MAX_NAME:
        raise ConfigError(
            f"not an account name: {name!r}", hint="use a short path such as 'replay' or 'env/data'"
        )
    return name.strip("/ ")


def _reference(obj: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(obj)
    except TypeError:
        # builtin list, dict and tuple allow no weak references: refer to what they hold instead
        pass
    if isinstance(obj, list | dict | tuple):
        raise ConfigError(
            f"a builtin {type(obj).__name__} cannot be claimed without keeping it alive",
            hint="claim the object that holds it, or its arrays: claim('replay', *arrays)",
        )
    raise ConfigError(
        f"{type(obj).__name__} cannot be claimed: it allows no weak reference",
        hint="claim the object that holds it",
    )


CLAIMS = Claims()  # one per process, shared by api and agent
