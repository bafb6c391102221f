"""The canonical name of an object: labels from what lives longest down to it, stored as a tree.

Equal names are one node, a node knows its parent, and text is made only when it is printed. A name
has a maximum depth: everything below it gets the name at that depth. Beside its name, a root knows
by which variable it was found: names say what an object is, `access` where to find it again.
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
    """One node: `Trainer.agents[*].history` is three labels below `Trainer`."""

    __slots__ = (
        "_below", "_found_by", "_is_in_element", "_names", "_tree", "account", "attributes",
        "depth", "has_account", "label", "parent", "root_label",
    )  # fmt: skip

    def __init__(
        self, label: str, parent: "Path | None" = None, found_by: "str | Path" = ""
    ) -> None:
        self.label = label
        self.parent = parent
        self.root_label: str = parent.root_label if parent is not None else label
        self._tree: _Tree = parent._tree if parent is not None else _Tree()
        self._below: dict[str, Path] | None = None
        self._found_by = found_by
        if parent is None:
            self.depth = self.attributes = 0
            self._is_in_element = False
            self._names = label.rpartition(":")[2].count(".") + 1
            self.account, self.has_account = f"variables/{label}", True
            return
        self.depth = parent.depth + 1
        self.attributes = parent.attributes + label.startswith(".")
        self._names, self.account, self.has_account = parent._names, parent.account, False
        # an element is its container's: a list has the same account at any length
        self._is_in_element = parent._is_in_element or label == ELEMENT
        if self._is_in_element:
            return
        # keys extend the last name of an account; after the fourth name nothing is added
        self._names += label.startswith(".")
        if self._names <= _NAMES_IN_ACCOUNT and self.depth <= _LABELS_IN_ACCOUNT:
            self.account, self.has_account = parent.account + label, True

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

    @property
    def access(self) -> str:
        """Where the first object of this name was found: `train.py:main.agents[*].history`."""
        parts: list[str] = []
        node: str | Path = self
        while isinstance(node, Path):
            while node.parent is not None:
                parts.append(node.label)
                node = node.parent
            node = node._found_by
        return node + "".join(reversed(parts)) if node else ""

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

    def close(self) -> None:
        """No more steps: paths keep their parents only, so that no cycle is left as garbage."""
        waiting = list(self._roots.values())
        while waiting:
            below, waiting[-1]._below = waiting[-1]._below, None
            waiting.pop()
            waiting += (below or {}).values()

    def root(self, text: str, found_by: str | Path = "") -> Path:
        found = self._roots.get(text)
        if found is None:
            found = self._roots[text] = Path(short(text), None, found_by)
        return found


def field_of(label: str) -> str:
    """'observations' from '.observations' or "['observations']"; '' for an index."""
    name = label.strip(".[]'")
    return "" if name in ("*", "") or name.startswith("__") else name.lstrip("_")
