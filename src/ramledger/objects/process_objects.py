"""The objects of this process at one instant: owners, live counts, costs of imports."""

import sys
from bisect import bisect_left
from collections import Counter
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
from ramledger.objects.census.frame_holders import frame_holders
from ramledger.objects.census.live_objects import LiveObjects, count_live_objects
from ramledger.objects.census.own_objects import count_own_objects
from ramledger.objects.claims import Claims
from ramledger.objects.holdings import Block, Container, Holding
from ramledger.objects.library_search import find_in_libraries
from ramledger.objects.names.paths import Path
from ramledger.objects.names.walk_roots import Root, library_roots, user_roots
from ramledger.objects.replays.replays_found import FoundReplay
from ramledger.objects.walk import ObjectWalk

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
    """Plain data, the object side of a snapshot: keeps no object of the program alive."""

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
    graph_holders: dict[str, int] = field(default_factory=dict)
    tensorflow: dict[str, Any] | None = None  # counts, and graphs by function
    complete: bool = True
    unread: int = 0  # objects that could not be read
    why_not_counted: str = ""  # the reason, if objects were not counted
    object_addresses: list[int] = field(default_factory=list)
    imports: ImportTracker | None = None
    watched_paths: dict[str, list[str]] = field(default_factory=dict)
    replays: list[FoundReplay] = field(default_factory=list)  # of the program's own

    def mappings_with_objects(self, mappings: Sequence[_HasRange]) -> frozenset[int]:
        """Starts of the mappings that contain Python objects."""
        addresses = self.object_addresses
        return frozenset(
            mapping.start
            for mapping in mappings
            if (at := bisect_left(addresses, mapping.start)) < len(addresses)
            and addresses[at] < mapping.stop
        )

    def import_wants(self) -> tuple[list[Want], list[Want]]:
        """Bytes that imports and start-up took from the Python pool and from the native pool."""
        python: list[Want] = []
        native: list[Want] = []
        made = tf_graph_costs.COSTS.traces  # if live graphs were not counted, all count as alive
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
    """Read this process: claims, recognized objects, variables, then what libraries hold.

    Without `objects`, only arrays are found that variables or known objects lead to, at a fraction
    of the cost. Paths of instances of `watched` classes are noted.
    """
    try:
        return _read(claims, objects, frozenset(watched), allowance or Allowance())
    finally:
        forget_types()


def read_named_objects(claims: Claims | None = None, *roots: Root) -> ProcessObjects:
    """Only what the user's variables and `roots` lead to; live objects are not counted.

    With many libraries loaded, this takes a third of the time of reading without `objects`.
    """
    try:
        walk = _walked(claims, frozenset(), Allowance(), roots)
        found = ProcessObjects(imports=import_tracker())
        found.object_addresses = sorted([*walk.addresses, *_addresses_of_globals()])
        return _with_holdings(found, walk)
    finally:
        forget_types()


def _addresses_of_globals() -> list[int]:
    """Addresses of some globals of all modules: they are spread over all arenas of imports."""
    found = [
        [id(value) for _, value in first_items(namespace(module), _MOST_GLOBALS)[::_EVERY_GLOBAL]]
        for module in list(sys.modules.values())
    ]
    return list(chain.from_iterable(found))


def _walked(
    claims: Claims | None,
    watched: frozenset[str],
    allowance: Allowance,
    roots: Iterable[Root] = (),
) -> ObjectWalk:
    walk = ObjectWalk(watched, allowance)
    for name, claimed in (claims.living() if claims else {}).items():
        walk.claim(name, claimed)
    walk.walk(chain(user_roots(), [list(roots)]))
    return walk


def _read(
    claims: Claims | None, objects: bool, watched: frozenset[str], allowance: Allowance
) -> ProcessObjects:
    walk = _walked(claims, watched, allowance)
    found = ProcessObjects(imports=import_tracker())
    _add_live_objects(found, walk, count_live_objects(arrays=objects, allowance=allowance), objects)
    return _with_holdings(found, walk)


def _with_holdings(found: ProcessObjects, walk: ObjectWalk) -> ProcessObjects:
    found.holdings = list(walk.holdings.values())
    found.containers = walk.containers
    found.small_containers = walk.small.that_hold_much()
    found.complete = walk.complete
    found.unread = walk.unread
    found.watched_paths = walk.watched_paths
    found.graph_holders = walk.graph_holders
    with suppress(Exception):  # the program may free arrays meanwhile
        found.replays = walk.replays.listed(
            chain(found.containers, found.small_containers), found.holdings
        )
    walk.close()
    return found


def _add_live_objects(
    found: ProcessObjects, walk: ObjectWalk, live: LiveObjects, objects: bool
) -> None:
    for obj in (*live.recognized, *live.of_user_classes):
        walk.add_unreached(obj)
    if objects:
        _add_unreached(walk, live)
        found.types = live.type_counts()
    found.why_not_counted = live.why_not
    found.counts = dict(Counter(live.counts_by_name()) - count_own_objects())
    found.user_classes = live.user_classes()
    found.record_classes = live.record_classes()
    found.frame_holders = frame_holders(live.of_user_classes)
    found.tracked_objects = live.tracked
    found.graph_tensors, found.graph_depth = live.graph_tensors, live.graph_depth
    with suppress(Exception):  # the program may be tracing a function meanwhile
        found.tensorflow = tensorflow_facts(live.traced, live.counts, live.array_bytes)
    if found.tensorflow is not None:
        found.tensorflow["callers"] = callers()
    found.object_addresses = sorted([*live.addresses, *walk.addresses])


def _add_unreached(walk: ObjectWalk, live: LiveObjects) -> None:
    """Book large arrays that no variable of the user leads to: to libraries, or to no owner."""
    storages = {
        address: storage for address, storage in live.large.items() if not walk.has_block(address)
    }
    if sum(storage.reserved_bytes for storage in storages.values()) < WORTH_A_SEARCH_BYTES:
        return
    find_in_libraries(walk, library_roots(), set(storages))
    lost = [s for address, s in storages.items() if not walk.has_block(address)]
    if lost:
        account = "arrays/no owner found"
        holding = Holding(account, Source.INTERPRETER, objects=len(lost))
        holding.blocks = [Block(one, Path(f"<{one.type}>"), account) for one in lost]
        walk.holdings[account] = holding
