"""What a walk needs to know of a type, computed once a type."""

from collections import OrderedDict, defaultdict, deque
from typing import NamedTuple

from ramledger.hooks.tf_functions import is_traced_function
from ramledger.interpreter.array_storage import array_kind
from ramledger.interpreter.attributes import container_kind, is_opaque
from ramledger.interpreter.object_sizes import even_bytes
from ramledger.interpreter.type_facts import bare_name, once_a_type
from ramledger.objects.names.name_bearers import bears_name
from ramledger.objects.roles import Role, is_instrument, role_of

_PLAIN_CONTAINERS = (list, dict, tuple, set, frozenset, deque, OrderedDict, defaultdict)


class WalkedKind(NamedTuple):
    """Facts of a type."""

    is_opaque: bool
    is_weighed: bool  # holds nothing, but has a size of its own
    is_class: bool
    is_container: bool
    is_plain_container: bool  # nothing but a container, and its length runs no code
    array: str
    role: Role | None
    is_traced: bool
    is_parameter: bool
    bears_name: bool
    even_bytes: int | None  # the size of each instance, if all are equal
    name: str

    @property
    def holds_data(self) -> bool:
        return self.is_container or bool(self.array)


@once_a_type
def walked_kind(kind: type) -> WalkedKind:
    name = bare_name(kind)
    return WalkedKind(
        is_opaque=is_opaque(kind) or is_instrument(kind),
        is_weighed=kind is str or kind is float or kind is int,
        is_class=issubclass(kind, type),
        is_container=container_kind(kind) is not None,
        is_plain_container=any(kind is plain for plain in _PLAIN_CONTAINERS),
        array=array_kind(kind),
        role=role_of(kind),
        is_traced=is_traced_function(kind),
        is_parameter=name == "Parameter",
        bears_name=bears_name(kind),
        even_bytes=even_bytes(kind),
        name=name,
    )
