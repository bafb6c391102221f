"""The inside of this process at one instant: who holds what, what is alive, what imports cost."""

import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

from ramledger.hooks import tf_graph_costs
from ramledger.hooks.import_costs import ImportTracker, installed_costs
from ramledger.hooks.import_costs import tracker as import_tracker
from ramledger.hooks.keras_calls import callers
from ramledger.hooks.tf_functions import tensorflow_facts
from ramledger.interpreter.attributes import first_items
from ramledger.interpreter.cpu_allowance import Allowance
from ramledger.interpreter.loaded_modules import namespace
from ramledger.interpreter.type_facts import forget_types
from ramledger.ledger import Source, TypeCount
from ramledger.objects.claims import Claims
from ramledger.objects.frame_holders import frame_holders
from ramledger.objects.holdings import Block, Container, Holding
from ramledger.objects.live_objects import LiveObjects, count_live_objects
from ramledger.objects.paths import Path
from ramledger.objects.walk import ObjectWalk
from ramledger.objects.walk_roots import Root, library_roots, user_roots

WORTH_A_SEARCH_BYTES = 256 * 1024
_EVERY_GLOBAL = 8
_MOST_GLOBALS = 2_000

Want = tuple[str, Source, int]


class _HasRange(Protocol):
    @property
    def start(self) -> int: ...
    @property
    def stop(self) -> int: ...


@dataclass(slots=True)
class ProcessObjects:
    """Plain data: nothing in it keeps an object of the program alive."""

    holdings: list[Holding] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)  # long ones
    small_containers: list[Container] = field(default_factory=list)  # short ones that hold much
    types: tuple[TypeCount, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    user_classes: list[str] = field(default_factory=list)
    record_classes: list[str] = field(default_factory=list)
    frame_holders: dict[str, int] = field(default_factory=dict)
    tracked_objects: int = 0
    graph_tensors: int = 0
    graph_depth: int = 0
    tensorflow: dict[str, Any] | None = None  # counts, and graphs by function
    complete: bool = True
    unread: int = 0  # objects that could not be read
    why_not_counted: str = ""  # one sentence where objects were not counted
    object_addresses: list[int] = field(default_factory=list)
    imports: ImportTracker | None = None
    watched_paths: dict[str, list[str]] = field(default_factory=dict)

    def mappings_with_objects(self, mappings: Sequence[_HasRange]) -> frozenset[int]:
        """Starts of the mappings in which Python objects live."""
        addresses = self.object_addresses
        return frozenset(
            mapping.start
            for mapping in mappings
            if (at := bisect_left(addresses, mapping.start)) < len(addresses)
            and addresses[at] < mapping.stop
        )

    def import_wants(self) -> tuple[list[Want], list[Want]]:
        """What imports and start-up want of the Python pool and of the native pool."""
        python: list[Want] = []
        native: list[Want] = []
        made = tf_graph_costs.COSTS.traces  # where they were not counted, all are taken to be alive
        if graphs := self.tensorflow["graphs"] if self.tensorflow is not None else made:
            sizes = tf_graph_costs.COSTS.living(graphs)
            native.append((tf_graph_costs.ACCOUNT, Source.IMPORT, sizes[0]))
            python.append((tf_graph_costs.ACCOUNT, Source.IMPORT, sizes[1]))
        if self.imports is None:
            return python, native
        for cost in installed_costs(self.imports):
            tool = cost.package == "ramledger"
            account = "ramledger" if tool else f"imports/{cost.package}"
            source = Source.TOOL if tool else Source.IMPORT
            python.append((account, source, max(0, cost.python_bytes)))
            native.append((account, source, max(0, cost.native_bytes)))
        if self.imports.saw_start:
            python.append(("python/startup", Source.IMPORT, self.imports.started_python_bytes))
            native.append(("python/startup", Source.IMPORT, self.imports.started_native_bytes))
            python.append(("ramledger", Source.TOOL, self.imports.tool_python_bytes))
            native.append(("ramledger", Source.TOOL, self.imports.tool_native_bytes))
        return python, native


def read_process_objects(
    claims: Claims | None = None,
    *,
    objects: bool = True,
    watched: Collection[str] = (),
    allowance: Allowance | None = None,
) -> ProcessObjects:
    """Look at this process: claims, recognized objects, variables, then what libraries hold.

    Without `objects`, arrays are found only where names or known objects lead to them, at a
    fraction of the cost. Paths of instances of `watched` classes are noted on the way.
    """
    try:
        return _look(claims, objects, frozenset(watched), allowance or Allowance())
    finally:
        forget_types()


def read_named_objects(claims: Claims | None = None, *roots: Root) -> ProcessObjects:
    """Only what the user's names and `roots` lead to: objects are neither counted nor found else.

    Takes a third of the time of a look without `objects`, where many libraries are loaded.
    """
    try:
        exploration = _explored(claims, frozenset(), Allowance(), roots)
        view = ProcessObjects(imports=import_tracker())
        view.object_addresses = sorted([*exploration.addresses, *_addresses_of_globals()])
        return _with_holdings(view, exploration)
    finally:
        forget_types()


def _addresses_of_globals() -> list[int]:
    """From all over the arenas, as imports filled them."""
    found = [
        [id(value) for _, value in first_items(namespace(module), _MOST_GLOBALS)[::_EVERY_GLOBAL]]
        for module in list(sys.modules.values())
    ]
    return list(chain.from_iterable(found))


def _explored(
    claims: Claims | None,
    watched: frozenset[str],
    allowance: Allowance,
    roots: Iterable[Root] = (),
) -> ObjectWalk:
    exploration = ObjectWalk(watched, allowance)
    for name, claimed in (claims.living() if claims else {}).items():
        exploration.claim(name, claimed)
    exploration.walk(chain(user_roots(), roots))
    return exploration


def _look(
    claims: Claims | None, objects: bool, watched: frozenset[str], allowance: Allowance
) -> ProcessObjects:
    exploration = _explored(claims, watched, allowance)
    view = ProcessObjects(imports=import_tracker())
    _take_census(
        view, exploration, count_live_objects(arrays=objects, allowance=allowance), objects
    )
    return _with_holdings(view, exploration)


def _with_holdings(view: ProcessObjects, exploration: ObjectWalk) -> ProcessObjects:
    view.holdings = list(exploration.holdings.values())
    view.containers = exploration.containers
    view.small_containers = exploration.small_containers()
    view.complete = exploration.complete
    view.unread = exploration.unread
    view.watched_paths = exploration.watched_paths
    return view


def _take_census(
    view: ProcessObjects, exploration: ObjectWalk, census: LiveObjects, objects: bool
) -> None:
    for obj in (*census.recognized, *census.of_user_classes):
        exploration.add_unreached(obj)
    if objects:
        _add_unreached(exploration, census)
        view.types = census.type_counts()
    view.why_not_counted = census.why_not
    view.counts = census.counts_by_name()
    view.user_classes = census.user_classes()
    view.record_classes = census.record_classes()
    view.frame_holders = frame_holders(census.of_user_classes)
    view.tracked_objects = census.tracked
    view.graph_tensors, view.graph_depth = census.graph_tensors, census.graph_depth
    with suppress(Exception):  # the program may be tracing meanwhile
        view.tensorflow = tensorflow_facts(census.traced, census.counts, census.array_bytes)
    if view.tensorflow is not None:
        view.tensorflow["callers"] = callers()
    view.object_addresses = sorted([*census.addresses, *exploration.addresses])


def _add_unreached(exploration: ObjectWalk, census: LiveObjects) -> None:
    """Large arrays that the user's names do not lead to: libraries hold them, or nobody does."""
    storages = {
        address: storage
        for address, storage in census.large.items()
        if not exploration.has_block(address)
    }
    if sum(storage.reserved_bytes for storage in storages.values()) < WORTH_A_SEARCH_BYTES:
        return
    exploration.find_in_libraries(library_roots(), set(storages))
    lost = [s for address, s in storages.items() if not exploration.has_block(address)]
    if lost:
        account = "arrays/no owner found"
        holding = Holding(account, Source.INTERPRETER, objects=len(lost))
        holding.blocks = [Block(one, Path(f"<{one.type}>"), account) for one in lost]
        exploration.holdings[account] = holding
