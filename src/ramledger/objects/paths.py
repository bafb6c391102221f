"""The path to an object: labels from a variable of the user down to it, stored as a tree.

Equal paths are one node, a node knows its parent, and text is made only when it is printed. Paths
have a maximum depth: everything below it gets the name at that depth.
"""

from ramledger.interpreter.type_facts import short

DEEPEST = 32  # labels below a root
_NAMES_IN_ACCOUNT = 4
_LABELS_IN_ACCOUNT = 6
MOST_PATHS = 2_000  # below a root; later objects are booked to the nearest path that exists
ELEMENT = "[*]"


class _Tree:
    """Shared by the paths below one root: how many there are."""

    __slots__ = ("nodes",)

    def __init__(self) -> None:
        self.nodes = 0


class Path:
    """One node: `train.py:main.agents[*].history` is four labels below `train.py:main`."""

    __slots__ = ("_below", "_names", "_tree", "account", "attributes", "depth", "label", "parent")

    def __init__(self, label: str, parent: "Path | None" = None) -> None:
        self.label = label
        self.parent = parent
        self._tree: _Tree = parent._tree if parent is not None else _Tree()
        self._below: dict[str, Path] | None = None
        if parent is None:
            self.depth = self.attributes = 0
            self._names = label.partition(":")[2].count(".") + 1
            self.account = _root_account(label)
            return
        self.depth = parent.depth + 1
        self.attributes = parent.attributes + label.startswith(".")
        self._names, self.account = parent._names, parent.account
        if ":" not in parent.account or label == ELEMENT:
            return
        # keys extend the last name of an account; after the fourth name nothing is added
        self._names += label.startswith(".")
        if self._names <= _NAMES_IN_ACCOUNT and self.depth <= _LABELS_IN_ACCOUNT:
            self.account = parent.account + label

    def step(self, label: str) -> "Path":
        """The path of the object below this one under `label`."""
        # a list within a list gets no name of its own, nor does anything below the maximum depth
        if not label or (label == ELEMENT and self.label == ELEMENT) or self.depth >= DEEPEST:
            return self
        if self._below is None:
            self._below = {}
        found = self._below.get(label)
        if found is None:
            if self._tree.nodes >= MOST_PATHS:
                return self
            self._tree.nodes += 1
            found = self._below[label] = Path(label, self)
        return found

    def last_name(self) -> str:
        """`actor` of `agents[*].actor`: the nearest name on the way up; '' if there is none."""
        node: Path | None = self
        while node is not None and node.parent is not None and not node.label.startswith("."):
            node = node.parent
        text = node.label if node is not None else ""
        name = text.rpartition(":")[2].rpartition(".")[2].partition("[")[0]
        return "" if name.startswith("<") else name

    def __str__(self) -> str:
        labels = []
        node: Path | None = self
        while node is not None:
            labels.append(node.label)
            node = node.parent
        return "".join(reversed(labels)) + ("…" if self.depth >= DEEPEST else "")


class Paths:
    """The roots of one walk."""

    def __init__(self) -> None:
        self._roots: dict[str, Path] = {}

    def root(self, text: str) -> Path:
        found = self._roots.get(text)
        if found is None:
            found = self._roots[text] = Path(text)
        return found


def _root_account(text: str) -> str:
    """`variables/train.py:main.trainer`: at most four names below the file."""
    head, colon, tail = text.partition(":")
    if not colon:
        return short(f"variables/{head.partition('.')[0].partition('[')[0]}")
    return f"variables/{head}:{'.'.join(tail.split('.')[:_NAMES_IN_ACCOUNT])}"
