"""Who holds what: a walk from the user's names down to every array, tensor and container.

Each block is booked once, to the first owner that reaches it: claims, then recognized objects,
then the shortest path from a variable. Long containers are walked in bulk, at C speed.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ramledger.inside import bulk
from ramledger.inside.attributes import (
    OPAQUE_TYPES,
    children,
    container_kind,
    container_length,
    instance_dict,
    is_class,
    own_fields,
)
from ramledger.inside.recognize import (
    NETWORK,
    OPTIMIZER,
    Role,
    capacity_of,
    fill_of,
    role_of,
    stated_capacity,
)
from ramledger.inside.small_containers import SmallContainer, SmallContainers
from ramledger.inside.storage import Storage, array_kind, has_graph, storage_of
from ramledger.inside.traced import is_traced_function
from ramledger.ledger import Source

BULK_LENGTH = 256  # containers longer than this are summed, not walked element by element
MAX_NODES = 60_000
MAX_ADDRESSES = 20_000
_LIBRARY_DEPTH = 3


@dataclass(slots=True)
class Block:
    """A located or sized storage with the path that holds it."""

    storage: Storage
    path: str
    account: str
    fill: float | None = None
    shared_with: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Holding:
    """Everything one account holds: blocks with addresses, and bytes without."""

    account: str
    source: Source
    blocks: list[Block] = field(default_factory=list)
    python_bytes: int = 0  # small objects, in CPython's arenas
    native_bytes: int = 0  # large object bodies and small arrays, in malloc's heap
    objects: int = 0
    owners: int = 0  # recognized or claimed instances behind this account
    is_network: bool = False
    fill: float | None = None


@dataclass(slots=True)
class Container:
    """A long container met on the way: the unit in which leaks are found."""

    path: str
    type: str
    length: int
    element_type: str
    bytes: int
    account: str = ""
    capacity: int | None = None  # where its kind or its owner says how long it may become
    graphs: int = 0  # of its tensors, those that carry the graph that made them


@dataclass(slots=True)  # one for every reference that is followed: frozen ones are slow to make
class _Place:
    """Where the walk stands: the path so far, and the account it books to. Not changed later."""

    path: str
    account: str
    source: Source
    fill: float | None = None
    by_field: bool = False
    capacity: int | None = None
    within: SmallContainer | None = None  # the nearest container around


class Exploration:
    """One walk over the object graph. Feed it roots in order of precedence, then read it."""

    def __init__(self, watched: frozenset[str] = frozenset()) -> None:
        self.watched_paths: dict[str, list[str]] = {name: [] for name in watched}
        self.holdings: dict[str, Holding] = {}
        self.containers: list[Container] = []
        self._small = SmallContainers()
        self._like = bulk.LikeOthers()
        self.addresses: list[int] = []  # of elements of long containers
        self.nodes = 0
        self.complete = True
        self._blocks: dict[int, Block] = {}
        self._visited: set[int] = set()
        self._summed: set[type] = set()
        self._queue: deque[tuple[Any, _Place]] = deque()
        self._late: deque[tuple[Any, _Place]] = deque()
        self._keep_out(self.__dict__.values())

    def claim(self, name: str, roots: Iterable[Any]) -> None:
        """Book everything below `roots` to the account `name`."""
        for root in roots:
            self._claim_one(name, root)
        self._run(MAX_NODES)

    def _claim_one(self, name: str, root: Any) -> None:
        self._holding(name, Source.CLAIM).owners += 1
        fill = fill_of(root if type(root) is dict else own_fields(root))
        self._visited.add(id(root))
        place = _Place(name, name, Source.CLAIM, fill)
        if array_kind(type(root)):
            self._book_array(root, place)
            return
        self._add_object(root, place)
        role = role_of(type(root))
        self._holding(name, Source.CLAIM).is_network |= role is NETWORK
        whole = role is not None and not role.by_field  # a network or env is one account
        for label, value in children(root):
            part = "" if whole or type(value) in OPAQUE_TYPES else _field(label)
            account = f"{name}/{part}" if part else name
            self._push(value, _Place(name + label, account, Source.CLAIM, fill))

    def walk(self, roots: Iterable[tuple[str, Any]], max_nodes: int = MAX_NODES) -> None:
        """Follow named roots breadth first, so that the shortest path names a thing."""
        for path, value in roots:
            self._push(value, _Place(path, f"variables/{path}", Source.PATH))
        self._run(max_nodes)

    def find_in_libraries(self, roots: Iterable[tuple[str, Any]], addresses: set[int]) -> None:
        """Find who among the globals of libraries holds the blocks at `addresses`, three deep."""
        level = [(path, value) for path, value in roots if type(value) not in OPAQUE_TYPES]
        for _ in range(_LIBRARY_DEPTH):
            below: list[tuple[str, Any]] = []
            for path, value in level:
                if id(value) in self._visited or len(below) > MAX_NODES:
                    continue
                self._visited.add(id(value))
                if array_kind(type(value)):
                    self._book_wanted(path, value, addresses)
                elif container_kind(type(value)) or instance_dict(value):
                    below += (
                        (path + label, child)
                        for label, child in children(value)
                        if type(child) not in OPAQUE_TYPES and not is_class(child)
                    )
            level = below
            if not addresses:
                return

    def _book_wanted(self, path: str, array: Any, addresses: set[int]) -> None:
        storage = storage_of(array)
        if storage is not None and storage.address in addresses:
            addresses.discard(storage.address)
            self._book_array(array, _Place(path, _variable_account(path), Source.PATH))

    def add_unreached(self, obj: Any) -> None:
        """Book an instance that lives although none of the user's names leads to it.

        Not where a long container was summed that has such instances: it may be one of them.
        """
        if id(obj) not in self._visited and type(obj) not in self._summed:
            path = f"<{type(obj).__name__}>"
            self._push(obj, _Place(path, f"variables/{path}", Source.PATH))
            self._run(MAX_NODES)

    def small_containers(self) -> list[Container]:
        """Short containers that hold much, largest first; outer ones before those within."""
        rows = [
            Container(
                c.path, c.type, c.length, c.element_type, c.bytes, c.account, c.capacity, c.graphs,
            )
            for c in self._small.worth_telling()
        ]  # fmt: skip
        return sorted(rows, key=lambda row: -row.bytes)

    def has_block(self, address: int) -> bool:
        return address in self._blocks

    def _keep_out(self, objects: Iterable[Any]) -> None:
        self._visited.update(map(id, objects))
        self._visited.add(id(self.__dict__))

    def _push(self, obj: Any, place: _Place) -> None:
        kind = type(obj)
        if kind in OPAQUE_TYPES:
            if kind is str or kind is float or kind is int:
                self._add_object(obj, place)
            return
        if is_class(obj):
            return
        if id(obj) in self._visited:
            self._note_sharing(obj, place)
            return
        if _belongs_elsewhere(kind, place):
            self._late.append((obj, place))
            return
        self._visited.add(id(obj))
        if array_kind(kind) == "numpy":
            # at once: ndarray.resize() refuses while somebody else holds the array
            self.nodes += 1
            self._book_array(obj, place)
            return
        self._queue.append((obj, place))

    def _run(self, max_nodes: int) -> None:
        last = self.nodes + max_nodes
        while self._queue or self._late:
            if self.nodes >= last:
                self.complete = False
                self._queue.clear()
                self._late.clear()
                return
            if not self._queue:
                obj, place = self._late.popleft()
                if id(obj) in self._visited:
                    self._note_sharing(obj, place)
                    continue
                self._visited.add(id(obj))
            else:
                obj, place = self._queue.popleft()
            self.nodes += 1
            self._visit(obj, place)

    def _visit(self, obj: Any, place: _Place) -> None:
        kind = type(obj)
        if array_kind(kind):
            self._book_array(obj, place)
            return
        if kind.__name__ in self.watched_paths:
            self.watched_paths[kind.__name__].append(place.path)
        if is_traced_function(kind):  # its graphs lead everywhere; what they cost is measured apart
            self._add_object(obj, place)
            return
        role = role_of(kind)
        if role is not None and self._may_enter(role, place):
            place = self._enter_role(obj, role, place)
        length = container_length(obj)
        self._add_object(obj, place)
        if length is not None and length > BULK_LENGTH:
            self._book_bulk(obj, length, place)
            return
        if length is not None:
            within = self._small.enter(
                obj, length, place.path, place.account, place.capacity, place.within
            )
            place = _Place(
                place.path, place.account, place.source, place.fill, place.by_field, None, within
            )
        limit = stated_capacity(instance_dict(obj) or {})
        for label, value in children(obj):
            inner = self._step(place, label, value)
            if limit is not None and container_kind(type(value)):
                inner.capacity = limit
            self._push(value, inner)

    def _step(self, place: _Place, label: str, value: Any) -> _Place:
        path = place.path if place.path.endswith(label) and label == "[*]" else place.path + label
        if place.by_field:
            part = _field(label)
            account = f"{place.account}/{part}" if part and _holds_data(value) else place.account
            return _Place(path, account, place.source, place.fill, within=place.within)
        account = _variable_account(path) if place.source is Source.PATH else place.account
        return _Place(path, account, place.source, place.fill, within=place.within)

    def _may_enter(self, role: Role, place: _Place) -> bool:
        """Claims keep what is below them, but an optimizer inside a claimed network is its own."""
        if place.source is not Source.CLAIM:
            return True
        return role is OPTIMIZER and self._holding(place.account, place.source).is_network

    def _enter_role(self, obj: Any, role: Role, place: _Place) -> _Place:
        if place.source is Source.RECOGNIZED and _keeps_account(role, place):
            if role.by_field and place.fill is None:
                place.fill = fill_of(own_fields(obj))  # a buffer's storage counts, not the buffer
            return place
        account = role.account
        if role.by_name:
            account = f"{role.account}/{_name_of(place.path, obj)}"
        self._holding(account, Source.RECOGNIZED).owners += 1
        fill = fill_of(own_fields(obj)) if role.by_field else None
        return _Place(
            place.path, account, Source.RECOGNIZED, fill, role.by_field, within=place.within
        )

    def _book_array(self, obj: Any, place: _Place) -> None:
        storage = storage_of(obj)
        if storage is None:
            return
        holding = self._holding(place.account, place.source)
        holding.objects += 1
        if place.within is not None and storage.address not in self._blocks:
            place.within.add(storage.reserved_bytes)
        if storage.address is None:
            holding.native_bytes += storage.reserved_bytes
            return
        self._add_block(holding, storage, place)
        if array_kind(type(obj)) == "torch":
            if place.within is not None and place.within.holds(place.path) and has_graph(obj):
                place.within.graphs += 1
            self._book_gradient(obj, place, holding)

    def _add_block(self, holding: Holding, storage: Storage, place: _Place) -> None:
        assert storage.address is not None
        known = self._blocks.get(storage.address)
        if known is not None:
            if known.storage.pinned_by_view and not storage.pinned_by_view:
                self._give_to_whole(known, storage, holding, place)
            else:
                _share(known, place)
            return
        block = Block(storage, place.path, place.account, place.fill)
        self._blocks[storage.address] = block
        holding.blocks.append(block)
        if place.fill is not None:
            holding.fill = place.fill

    def _give_to_whole(
        self, block: Block, storage: Storage, holding: Holding, place: _Place
    ) -> None:
        """A view of a part was met first: the block belongs to who holds the whole."""
        if place.source is Source.CLAIM or self.holdings[block.account].source is not Source.CLAIM:
            self.holdings[block.account].blocks.remove(block)
            holding.blocks.append(block)
            block.path, block.account, block.fill = place.path, place.account, place.fill
        block.storage = storage

    def _book_gradient(self, tensor: Any, place: _Place, holding: Holding) -> None:
        # .grad of a non-leaf warns; a leaf's gradient lives and dies with the parameter
        if tensor.is_leaf and tensor.requires_grad:
            gradient = tensor.grad
            if gradient is not None and id(gradient) not in self._visited:
                self._visited.add(id(gradient))
                claimed = place.source is Source.CLAIM and not holding.is_network
                account, source = ("gradients", Source.RECOGNIZED)
                if claimed:
                    account, source = place.account, Source.CLAIM
                path = place.path + ".grad"
                self._book_array(gradient, _Place(path, account, source, within=place.within))

    def _book_bulk(self, obj: Any, length: int, place: _Place) -> None:
        found = self._like.sum(obj, length, place.path)
        self._summed |= found.kinds
        if len(self.addresses) < MAX_ADDRESSES:
            self.addresses += bulk.small_addresses(obj)
        path = place.path + "[*]"
        holding = self._holding(place.account, place.source)
        holding.python_bytes += found.python_bytes
        holding.native_bytes += found.native_bytes
        holding.objects += found.objects
        if place.within is not None:
            place.within.add(found.total_bytes)
        inner = _Place(path, place.account, place.source, place.fill)
        for array in found.large_arrays:
            self._book_array(array, inner)
        for special in found.recognized:
            self._push(special, inner)
        self.containers.append(
            Container(
                place.path,
                type(obj).__name__,
                length,
                found.element_type,
                found.total_bytes + bulk.size_of(obj),
                place.account,
                capacity_of(obj, place.capacity),
                round(length * bulk.share_with_graph(obj)),
            )
        )

    def _add_object(self, obj: Any, place: _Place) -> None:
        holding = self._holding(place.account, place.source)
        size = bulk.size_of(obj)
        holding.objects += 1
        if place.fill is not None:
            holding.fill = place.fill
        if place.within is not None:
            place.within.add(size)
        if size <= bulk.SMALL_OBJECT_BYTES:
            holding.python_bytes += size
        else:
            holding.native_bytes += size

    def _holding(self, account: str, source: Source) -> Holding:
        holding = self.holdings.get(account)
        if holding is None:
            holding = self.holdings[account] = Holding(account, source)
        return holding

    def _note_sharing(self, obj: Any, place: _Place) -> None:
        if array_kind(type(obj)) and place.source is not Source.PATH:
            storage = storage_of(obj)
            block = self._blocks.get(storage.address or 0) if storage else None
            if block is not None:
                _share(block, place)


def _belongs_elsewhere(kind: type, place: _Place) -> bool:
    """Optimizers and plain lists hold parameters, too; but their network owns them."""
    if role_of(kind) is OPTIMIZER:
        return True
    return place.source is Source.PATH and kind.__name__ == "Parameter"


def _share(block: Block, place: _Place) -> None:
    """Note a second owner; another name, the same account or an optimizer's list is none."""
    if place.source is Source.PATH or place.account == OPTIMIZER.account:
        return
    if place.account.partition("/")[0] == block.account.partition("/")[0]:
        return
    if place.account not in block.shared_with and len(block.shared_with) < 3:
        block.shared_with.append(place.account)


def _keeps_account(role: Role, place: _Place) -> bool:
    """A sub-network belongs to its network, a wrapped env to its env; a buffer is its own."""
    if role is NETWORK:
        return place.account.startswith(("networks/", "optimizer"))
    if role is OPTIMIZER:
        return False
    return place.account.partition("/")[0] == role.account


def _holds_data(value: Any) -> bool:
    return bool(array_kind(type(value))) or container_length(value) is not None


def _field(label: str) -> str:
    """'observations' from '.observations' or "['observations']"; '' for an index."""
    name = label.strip(".[]'")
    return "" if name in ("*", "") or name.startswith("__") else name.lstrip("_")


def _name_of(path: str, obj: Any) -> str:
    """The attribute that holds a network: `agents[*].actor` -> actor; else its class name."""
    last = path.rpartition(":")[2].rpartition(".")[2].partition("[")[0]
    return last if last and not last.startswith("<") else type(obj).__name__


def _variable_account(path: str) -> str:
    """`variables/train.py:main.trainer.history`: at most three names below the file."""
    head, colon, tail = path.partition(":")
    if not colon:
        return f"variables/{head.partition('.')[0].partition('[')[0]}"
    names = tail.replace("[*]", "").split(".")
    return f"variables/{head}:{'.'.join(names[:4])}"


def unreached_arrays(exploration: Exploration, arrays: Iterable[Any]) -> dict[int, Storage]:
    """Storages that a census saw and no walk reached, by address."""
    found: dict[int, Storage] = {}
    for array in arrays:
        storage = storage_of(array)
        if storage and storage.address and not exploration.has_block(storage.address):
            found.setdefault(storage.address, storage)
    return found
