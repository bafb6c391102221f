"""Finds owners: walks from the user's variables to every array, tensor and container.

Each block is booked once, to the first owner that reaches it: claims, then recognized objects,
then the shortest path from a variable. Long containers are estimated from a sample.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ramledger.interpreter.array_storage import LARGE_BYTES, Storage, array_kind, storage_of
from ramledger.interpreter.attributes import (
    children,
    container_length,
    instance_dict,
    is_opaque,
    own_fields,
)
from ramledger.interpreter.cpu_allowance import Allowance
from ramledger.interpreter.object_sizes import SMALL_OBJECT_BYTES, size_of
from ramledger.interpreter.own_memory import OwnMemory
from ramledger.interpreter.tally import Tally
from ramledger.interpreter.tensor_fields import gradient_storage, graph_depth, has_graph, is_trained
from ramledger.interpreter.type_facts import bare_name
from ramledger.ledger import Source
from ramledger.objects import long_containers
from ramledger.objects.holdings import Block, Container, Holding
from ramledger.objects.length_bounds import bound_of_attribute
from ramledger.objects.long_containers import ContainerSum
from ramledger.objects.names.name_bearers import bears_name
from ramledger.objects.names.paths import ELEMENT, Path, Paths, field_of
from ramledger.objects.names.walk_roots import Root
from ramledger.objects.replays.replays_found import ReplaysFound
from ramledger.objects.roles import (
    NETWORK,
    OPTIMIZER,
    Role,
    capacity_of,
    fill_of,
    keeps_account,
    role_of,
    stated_capacity,
)
from ramledger.objects.small_containers import SmallContainers
from ramledger.objects.walk_queue import Place, Waiting
from ramledger.objects.walked_kinds import WalkedKind, walked_kind

LONG_LENGTH = 256  # longer containers are estimated, not walked element by element
MAX_NODES, MAX_NODES_IN_ALL = 60_000, 100_000  # in one walk, in all of them
MAX_NAMED = 500  # instances of a class whose attributes are read by name
MAX_BLOCKS = 50_000  # located one by one; only the sizes of further blocks are added
MAX_ADDRESSES = 20_000
MAX_CONTAINERS = 10_000
MAX_WATCHED = 100  # paths of a class that is watched
GRADIENT = ".grad"
MAX_GRAPH_HOLDERS, MAX_GRAPH_NODES = 10, 300
_NODES_BETWEEN_CHECKS = 64  # of the CPU time spent


class ObjectWalk:
    """One walk over the object graph. Give it roots in order of precedence, then read it."""

    def __init__(
        self, watched: frozenset[str] = frozenset(), allowance: Allowance | None = None
    ) -> None:
        self.watched_paths: dict[str, list[str]] = {name: [] for name in watched}
        self.holdings: dict[str, Holding] = {}
        self.containers: list[Container] = []
        self.addresses: list[int] = []  # of elements of long containers
        self.replays = ReplaysFound()
        self.nodes = 0
        self.unread = 0  # objects that could not be read
        self.complete = True
        self._allowance = allowance or Allowance()
        self.small = SmallContainers()
        self._like = long_containers.SimilarContainers(self._allowance)
        self.paths = Paths()
        self._most_nodes = 0
        self._blocks: dict[int, Block] = {}
        self._memory: OwnMemory | None = None
        self.graph_holders: dict[str, int] = {}  # how far back the graph of each goes
        self._visited: set[int] = set()
        self._summed: set[int] = set()
        self._queue = Waiting()
        self._late = Waiting()
        self._places: dict[Path, Place] = {}
        self._named: Tally[int] = Tally()
        self._empty_bytes: dict[int, int] = {}  # by id of the type
        self._visited.update(map(id, (self.__dict__, *self.__dict__.values())))

    def claim(self, name: str, roots: Iterable[Any]) -> None:
        """Book everything below `roots` to the account `name`."""
        self._allow(MAX_NODES)
        for root in roots:
            self._claim_one(name, root)
        self._run()

    def _claim_one(self, name: str, root: Any) -> None:
        self._holding(name, Source.CLAIM).owners += 1
        fill = fill_of(root if type(root) is dict else own_fields(root))
        self._visited.add(id(root))
        path = self.paths.root(name)
        place = Place(path, name, Source.CLAIM, fill)
        if array_kind(type(root)):
            self.book_array(root, place)
            return
        self._add_object(root, place)
        role = role_of(type(root))
        self._holding(name, Source.CLAIM).is_network |= role is NETWORK
        whole = role is not None and not role.by_field  # a network or env is one account
        length = container_length(root) or 0
        if length > LONG_LENGTH:
            self._book_long_container(root, length, place)
        for label, value in children(root, length if length <= LONG_LENGTH else 0):
            part = "" if whole or is_opaque(type(value)) else field_of(label)
            account = f"{name}/{part}" if part else name
            self._push(value, Place(path.step(label), account, Source.CLAIM, fill))

    def walk(self, groups: Iterable[list[Root]]) -> None:
        """Follow groups of variables: an object gets the shortest name in the first of them."""
        self._allow(MAX_NODES)
        for group in groups:
            for name, access, value, most in group:
                path = self._root_of(name, access, value)
                self._push(value, Place(path, path.account, Source.PATH, capacity=most))
            group.clear()
            self._run()

    def _root_of(self, name: str, access: str, value: Any) -> Path:
        is_self = name.endswith("():self")
        if is_self or bears_name(type(value)):
            return self.paths.root(bare_name(type(value)), access)
        return self.paths.root(name, access)

    def see(self, obj: Any) -> bool:
        """Note that an object was met; whether that was new."""
        is_new = id(obj) not in self._visited
        self._visited.add(id(obj))
        return is_new

    def add_unreached(self, obj: Any) -> None:
        """Book a live instance to which no variable of the user leads.

        Not if a long container with such instances was estimated: it may be one of its elements.
        """
        kind = type(obj)
        if id(obj) not in self._visited and id(kind) not in self._summed:
            self._allow(MAX_NODES)
            path = self.paths.root(bare_name(kind) if bears_name(kind) else f"<{bare_name(kind)}>")
            self._push(obj, Place(path, path.account, Source.PATH))
            self._run()

    def close(self) -> None:
        """Forget what only the walk needs."""
        self.paths.close()
        self._like.close()
        if self._memory is not None:
            self._memory.close()

    def has_block(self, address: int) -> bool:
        return address in self._blocks

    def _allow(self, more_nodes: int) -> None:
        """Allow so many more objects; waiting ones count, because they take memory, too."""
        self._most_nodes = min(len(self._visited) + more_nodes, MAX_NODES_IN_ALL)

    def is_over(self) -> bool:
        self.complete &= not (is_spent := self._allowance.is_spent())
        return is_spent

    def _push(self, obj: Any, place: Place) -> None:
        kind = walked_kind(type(obj))
        if kind.is_opaque:
            if kind.is_weighed:
                self._add_object(obj, place)
            return
        if kind.is_class:
            return
        if id(obj) in self._visited:
            self._note_sharing(obj, place)
            return
        if kind.role is OPTIMIZER or (kind.is_parameter and place.source is Source.PATH):
            # optimizers and plain lists refer to parameters, but the network owns them
            if len(self._late.objects) < MAX_NODES:
                self._late.append(obj, place)
            return
        if len(self._visited) >= self._most_nodes:
            self.complete = False
            return
        self._visited.add(id(obj))
        if kind.array == "numpy":
            # not queued: ndarray.resize() fails while others refer to the array
            self.nodes += 1
            self.book_array(obj, place)
            return
        self._queue.append(obj, place)

    def _run(self) -> None:
        while self._queue.objects or self._late.objects:
            if self.nodes % _NODES_BETWEEN_CHECKS == 0 and self.is_over():
                self._queue.clear()
                self._late.clear()
                return
            if not self._queue.objects:
                obj, place = self._late.pop()
                if id(obj) in self._visited:
                    self._note_sharing(obj, place)
                    continue
                self._visited.add(id(obj))
            else:
                obj, place = self._queue.pop()
            self.nodes += 1
            try:
                self._visit(obj, place)
            except Exception:  # an object that cannot be read must not end the snapshot
                self.unread += 1

    def _visit(self, obj: Any, place: Place) -> None:
        kind = walked_kind(type(obj))
        if kind.array:
            self.book_array(obj, place)
            return
        if kind.name in self.watched_paths:
            paths = self.watched_paths[kind.name]
            if len(paths) < MAX_WATCHED:
                paths.append(str(place.path))
        if kind.is_traced:  # its graphs lead everywhere; their cost is measured by tf_graph_costs
            self._add_object(obj, place)
            return
        if kind.role is not None and self._may_enter(kind.role, place):
            place = self._enter_role(obj, kind.role, place)
        length = container_length(obj)
        if length is not None and place.source is Source.PATH:
            self.replays.look(obj, length, place)
        self._add_object(obj, place)
        self._count_owner(place)
        if length is not None and length > LONG_LENGTH:
            self._book_long_container(obj, length, place)
            return
        if length is not None:
            self._enter_container(obj, length, place)
        else:
            self._push_children(obj, place)

    def _enter_container(self, obj: Any, length: int, place: Place) -> None:
        """A short one; of many with one name, the first stand for the others."""
        within = self.small.enter(
            obj, length, place.path, place.account, place.capacity, place.within
        )
        if within is not None and within.is_known_well(length):
            within.add(self._book_elements(obj, length, place)[1])
            return
        if within is not place.within or place.capacity is not None:
            place = replace(place, capacity=None, within=within)
        self._push_children(obj, place)

    def _count_owner(self, place: Place, count: int = 1) -> None:
        if place.source is Source.PATH and place.path.has_account:
            self._holding(place.account, place.source).owners += count

    def _push_children(self, obj: Any, place: Place) -> None:
        key = id(type(obj))
        self._named[key] += 1
        by_name = self._named[key] <= MAX_NAMED
        limit = stated_capacity(instance_dict(obj) or {}) if by_name else None
        for label, value in children(obj, LONG_LENGTH, by_name=by_name):
            kind = walked_kind(type(value))
            if kind.is_opaque:
                self._weigh(value, kind, label, place)
                continue
            if kind.is_plain_container and not value:
                self._add_empty(value, place)
                continue
            inner = self._step(place, label, kind)
            if kind.is_container and (most := limit or bound_of_attribute(obj, label, value)):
                inner = replace(inner, capacity=most)
            self._push(value, inner)

    def _weigh(self, value: Any, kind: WalkedKind, label: str, place: Place) -> None:
        """Add what holds nothing: to its holder, or to its own name if it is large."""
        if kind.is_weighed:
            is_large = kind.even_bytes is None and size_of(value) > SMALL_OBJECT_BYTES
            self._add_object(value, self._step(place, label, kind) if is_large else place)

    def _add_empty(self, container: Any, place: Place) -> None:
        """An empty container belongs to its holder: a network has a dozen in each module."""
        key, holding = id(type(container)), self._holding(place.account, place.source)
        if key not in self._empty_bytes:
            self._empty_bytes[key] = size_of(container)
        holding.objects += 1
        holding.python_bytes += self._empty_bytes[key]

    def _step(self, place: Place, label: str, kind: WalkedKind) -> Place:
        path = self._path_of(place, label, kind)
        if place.by_field:
            part = field_of(label)
            account = f"{place.account}/{part}" if part and kind.holds_data else place.account
        else:
            account = path.account if place.source is Source.PATH else place.account
        # equal places are one object: many new objects would trigger the garbage collector
        known = self._places.get(path)
        if known is None or not (
            known.account == account
            and known.source is place.source
            and known.fill == place.fill
            and known.within is place.within
        ):
            known = Place(path, account, place.source, place.fill, within=place.within)
            self._places[path] = known
        return known

    def _path_of(self, place: Place, label: str, kind: WalkedKind) -> Path:
        """The name of what `place` holds under `label`.

        An attribute continues the name of its holder; an element that bears a name starts it anew,
        and so does an instance of the class with which the name began, as in a linked list.
        """
        path = place.path.step(label)
        if place.source is Source.CLAIM or not kind.bears_name:
            return path
        if label.startswith("[") or place.path.root_label == kind.name:
            return self.paths.root(kind.name, path)
        return path

    def _may_enter(self, role: Role, place: Place) -> bool:
        """A claim keeps everything below it, except an optimizer inside a claimed network."""
        if place.source is not Source.CLAIM:
            return True
        return role is OPTIMIZER and self._holding(place.account, place.source).is_network

    def _enter_role(self, obj: Any, role: Role, place: Place) -> Place:
        if place.source is Source.RECOGNIZED and keeps_account(role, place.account):
            if role.by_field and place.fill is None:
                # the fill of the buffer's own storage is the one that counts
                return replace(place, fill=fill_of(own_fields(obj)))
            return place
        account = role.account
        if role.by_name:
            account = f"{role.account}/{place.path.last_name() or bare_name(type(obj))}"
        self._holding(account, Source.RECOGNIZED).owners += 1
        fill = fill_of(own_fields(obj)) if role.by_field else None
        return Place(
            place.path, account, Source.RECOGNIZED, fill, role.by_field, within=place.within
        )

    def book_array(self, obj: Any, place: Place) -> int:
        """Book a block to its first owner; returns its size, whoever owns it."""
        storage = storage_of(obj)
        if storage is None:
            return 0
        holding = self._book_storage(storage, place)
        if storage.reserved_bytes < LARGE_BYTES:
            holding.add_header(obj)
        if array_kind(type(obj)) == "torch":
            if has_graph(obj):
                self._note_graph(obj, place)
            elif is_trained(obj):
                self._book_gradient(obj, storage, place, holding)
        return storage.reserved_bytes

    def _note_graph(self, tensor: Any, place: Place) -> None:
        """A tensor with an autograd graph: one of its container's, or of a name of its own."""
        if place.within is not None and place.within.holds(place.path):
            place.within.graphs += 1
        elif len(self.graph_holders) < MAX_GRAPH_HOLDERS:
            self.graph_holders[str(place.path)] = graph_depth([tensor], MAX_GRAPH_NODES)

    def _book_storage(self, storage: Storage, place: Place) -> Holding:
        holding = self._holding(place.account, place.source)
        holding.objects += 1
        self._count_owner(place)
        if place.within is not None and storage.address not in self._blocks:
            place.within.add(storage.reserved_bytes)
        is_full = len(self._blocks) >= MAX_BLOCKS and storage.address not in self._blocks
        if storage.address is None or is_full:
            holding.native_bytes += storage.reserved_bytes
        else:
            self._add_block(holding, storage, place)
        return holding

    def _add_block(self, holding: Holding, storage: Storage, place: Place) -> None:
        assert storage.address is not None
        known = self._blocks.get(storage.address)
        if known is not None:
            if known.storage.pinned_by_view and not storage.pinned_by_view:
                self._give_to_whole(known, storage, holding, place)
            else:
                self._share(known, place)
            return
        block = Block(storage, place.path, place.account, place.fill)
        self._blocks[storage.address] = block
        holding.blocks.append(block)
        if place.fill is not None:
            holding.fill = place.fill

    def _give_to_whole(
        self, block: Block, storage: Storage, holding: Holding, place: Place
    ) -> None:
        """A view of a part was met first, now the whole array: its owner gets the block."""
        if place.source is Source.CLAIM or self.holdings[block.account].source is not Source.CLAIM:
            self.holdings[block.account].blocks.remove(block)
            holding.blocks.append(block)
            block.where, block.account, block.fill = place.path, place.account, place.fill
        block.storage = storage

    def _book_gradient(self, tensor: Any, storage: Storage, place: Place, holding: Holding) -> None:
        self._memory = self._memory or OwnMemory()
        gradient = gradient_storage(tensor, storage, self._memory)
        if gradient is None or gradient.address in self._blocks:
            return
        account, source = "gradients", Source.RECOGNIZED
        if place.source is Source.CLAIM and not holding.is_network:
            account, source = place.account, Source.CLAIM
        path = place.path.step(GRADIENT)
        self._book_storage(gradient, Place(path, account, source, within=place.within))

    def _book_elements(self, obj: Any, length: int, place: Place) -> tuple[ContainerSum, int]:
        """Estimate what a container holds; also returns its size."""
        found = self._like.sum(obj, length, place.path)
        self._summed |= found.kinds.keys()
        if len(self.addresses) < MAX_ADDRESSES:
            self.addresses += long_containers.small_addresses(obj)
        inner = self._element_place(place, found.element_kind)
        held = self._book_sum(found, inner)
        for label, part in found.fields.items():
            field = self._step(inner, label, walked_kind(object))
            self._count_owner(field, length - len(part.large_arrays))
            held += self._book_sum(part, field)
        return found, held

    def _book_long_container(self, obj: Any, length: int, place: Place) -> None:
        if self.is_over():
            return
        found, held = self._book_elements(obj, length, place)
        if place.within is not None:
            place.within.add(held)
        if len(self.containers) < MAX_CONTAINERS:
            self.containers.append(
                Container(
                    place.path,
                    bare_name(type(obj)),
                    length,
                    found.element_type,
                    held + size_of(obj),
                    place.account,
                    capacity_of(obj, place.capacity),
                    round(length * found.graph_share),
                )
            )

    def _book_sum(self, found: ContainerSum, place: Place) -> int:
        """Book what many elements hold; returns its size."""
        holding = self._holding(place.account, place.source)
        holding.python_bytes += found.python_bytes
        holding.native_bytes += found.native_bytes
        holding.objects += found.objects
        held = found.python_bytes + found.native_bytes
        for array in found.large_arrays:
            held += self.book_array(array, place)
        for special in found.recognized:
            self._push(special, place)
        return held

    def _element_place(self, place: Place, kind: type | None) -> Place:
        path = place.path.step(ELEMENT)
        if kind is not None:
            path = self._path_of(place, ELEMENT, walked_kind(kind))
        account = path.account if place.source is Source.PATH else place.account
        return Place(path, account, place.source, place.fill)

    def _add_object(self, obj: Any, place: Place) -> None:
        holding = self._holding(place.account, place.source)
        size = size_of(obj)
        holding.objects += 1
        if place.fill is not None:
            holding.fill = place.fill
        if place.within is not None:
            place.within.add(size)
        if size <= SMALL_OBJECT_BYTES:
            holding.python_bytes += size
        else:
            holding.native_bytes += size

    def _holding(self, account: str, source: Source) -> Holding:
        holding = self.holdings.get(account)
        if holding is None:
            holding = self.holdings[account] = Holding(account, source)
        return holding

    def _note_sharing(self, obj: Any, place: Place) -> None:
        if array_kind(type(obj)) and place.source is not Source.PATH:
            storage = storage_of(obj)
            block = self._blocks.get(storage.address or 0) if storage else None
            if block is not None:
                self._share(block, place)

    def _share(self, block: Block, place: Place) -> None:
        """Note a second owner; a second variable or an optimizer does not count."""
        if place.source is not Source.PATH and place.account != OPTIMIZER.account:
            block.share_with(place.account)
