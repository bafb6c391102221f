"""Which classes get more instances from snapshot to snapshot.

The classes that grow most are often parts: a figure has hundreds of transforms. The leaked object
itself is often rare. So of each package the rarest classes that keep growing are listed, too.
"""

# Counter.most_common() imports it when it is first called, and an import in the middle of a program
# opens files at the lowest free descriptors.
import heapq  # noqa: F401
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ramledger.interpreter.tally import Tally

_OF_A_PACKAGE = 12
_STEADY_RISES = 2  # rises without a fall after which growth counts as steady
_MAX_CHANGED = 20_000


@dataclass(slots=True)
class CountHistory:
    """Instances by class in the first snapshot, and how the numbers changed since."""

    first: dict[str, int] = field(default_factory=dict)
    _last: dict[str, int] = field(default_factory=dict)
    _rises: Tally[str] = field(default_factory=Tally)
    _has_fallen: set[str] = field(default_factory=set)
    listed: dict[str, None] = field(default_factory=dict)  # in snapshots so far, in this order

    def add(self, counts: Mapping[str, int]) -> None:
        """Add the counts of one more snapshot."""
        if not self.first:
            self.first = dict(counts)
        for name, count in counts.items() if self._last else ():
            before = self._last.get(name, 0)
            if count > before and len(self._rises) < _MAX_CHANGED:
                self._rises[name] += 1
            elif count < before:
                self._has_fallen.add(name)
        self._last = dict(counts)

    def first_of(self, names: Iterable[str]) -> dict[str, int]:
        """Instances in the first snapshot, for classes that were not listed before."""
        new = [name for name in names if name not in self.listed]
        self.listed.update(dict.fromkeys(new))
        return {name: self.first.get(name, 0) for name in new}

    def most_grown(self, top: int) -> list[str]:
        """Classes with the most new instances since the first snapshot."""
        grown = Counter({name: n - self.first.get(name, 0) for name, n in self._last.items()})
        return [name for name, growth in grown.most_common(top) if growth > 0]

    def rare_but_steady(self, top: int) -> list[str]:
        """Of each package, the classes with the fewest instances that have risen and never fallen.

        Steady ones come first, then those that rose only once.
        """
        by_package: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for name, rises in self._rises.items():
            if name in self._has_fallen or name not in self._last:
                continue
            by_package[name.partition(".")[0]].append((-min(rises, _STEADY_RISES), name))
        found = []
        for names in by_package.values():
            names.sort(key=lambda item: (item[0], self._last[item[1]], not _is_main(item[1]), item))
            found += [name for _, name in names[:_OF_A_PACKAGE]]
        return sorted(found, key=lambda name: self._last[name])[:top]


def _is_main(name: str) -> bool:
    """Whether a module is named after the class, as in matplotlib.figure.Figure."""
    module, _, short = name.rpartition(".")
    return module.rpartition(".")[2].lower() == short.lower()
