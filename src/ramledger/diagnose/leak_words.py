"""A leak in one plain sentence, and who holds what: the same words on every screen and page."""

import re

from ramledger.diagnose.finding import Cause, CodeLines, Culprit

_STEP = re.compile(r"\.(?!py:)|(?=\[)")
_ELEMENT = "[*]"


def leak_sentence(cause: Cause, culprit: Culprit, code: CodeLines) -> str:
    """`train.py:80 adds to Trainer.recordings, which is never cleared`."""
    path, place = culprit.path, code.place
    what = culprit.type.removeprefix("__main__.") or "memory"
    if cause is Cause.UNBOUNDED_CONTAINER and path:
        adds = f"{place} adds to {path}" if place else f"{path} only grows"
        return f"{adds}, which is never cleared" if place else adds
    if cause is Cause.GRAPH_RETENTION:
        return _graphs(culprit, place)
    held = f", {culprit.relation} {path}" if path else ""
    what = _SAID.get(what, what)
    return _SENTENCES[cause].format(what=what, held=held, path=path)


def _graphs(culprit: Culprit, place: str) -> str:
    """Of torch, which tensors keep; of TensorFlow, which calls make."""
    path = culprit.path
    if culprit.type == "torch.Tensor":
        by = f"{place} keeps" if place else "something keeps"
        return f"{by} tensors with their autograd graphs" + (f" in {path}" if path else "")
    where = f", {culprit.relation} {path}" if path else ""
    return f"TensorFlow makes new graphs, which stay alive{where}"


_SENTENCES = {
    Cause.UNBOUNDED_CONTAINER: "more and more {what} objects are kept",
    Cause.OBJECT_PINNED: "more and more {what} objects stay alive{held}",
    Cause.PINNED_BY_SMALL_OWNER: "small objects keep large ones alive: {what}{held}",
    Cause.NATIVE_LEAK: "memory of a library grows, and no Python object holds it",
    Cause.ALLOCATOR_RETENTION: "{what} keeps memory that the program has freed",
    Cause.OUTSIDE_PROCESS: "memory grows outside of the training process, in a {what}",
    Cause.GC_OFF: "the garbage collector does not free {what}{held}",
    Cause.UNKNOWN: "memory grows, and no snapshot shows who holds it",
}


_SAID = {"Python arenas": "Python's allocator", "shared memory": "file of /dev/shm"}


def holder_chain(path: str, kind: str = "") -> tuple[str, ...]:
    """`("Trainer", "replay", "rows", "each a numpy.ndarray")`: from what lives longest to what
    grows.
    """
    parts = [part for part in _STEP.split(path) if part]
    named = [part for part in parts if part != _ELEMENT]
    if kind and named:
        named.append(f"each a {kind.removeprefix('__main__.')}")
    return tuple(named)


def per_iteration(per: str) -> str:
    """`an iteration`, `a minute`: a rate's unit as people say it."""
    return "an iteration" if per == "generation" else f"a {per}"
