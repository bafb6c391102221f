"""TensorFlow's own leak: graphs that only become more, and the code that makes them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ramledger.diagnose.finding import Culprit
from ramledger.diagnose.leak_evidence import Case, growth_lines
from ramledger.units import format_bytes

_LEAST_GRAPHS, _GRAPHS_A_GENERATION = 3, 0.7
_SHARE = 0.5  # of the new graphs that one function must have made to be named
_GRAPHS_A_PREDICT = 0.2
_CALLS_A_GENERATION = 5  # predict in a loop, not once a generation
_GRAPH_ACCOUNT = "tensorflow/graphs"

_REUSE = (
    "reuse one model and set its weights anew, or give each trial a process of its own: "
    "keras.backend.clear_session() does not free the graphs of a dropped model in Keras 3.15"
)
_ARGUMENTS = {
    "Python object": "keep objects out of its arguments: state belongs into tf.Variable, or into "
    "an object that lives as long as the function",
    "shape": "pad to a few shapes, or give it input_signature=[tf.TensorSpec([None, ...])] or "
    "reduce_retracing=True",
    "dtype": "convert to one dtype before the call",
}


class TracedLeak(NamedTuple):
    """What an explanation says, without its cause."""

    culprit: Culprit
    evidence: tuple[str, ...]
    advice: str
    confidence: float


def traced_leak(case: Case) -> TracedLeak | None:
    """Who makes the graphs, where their number rises with the generations."""
    before, after = case.early.tensorflow, case.late.tensorflow
    grown = _count(after, "graphs") - _count(before, "graphs")
    if not after or grown < max(_LEAST_GRAPHS, _GRAPHS_A_GENERATION * case.generations):
        return None
    lines = (_graph_line(case, before, after), *growth_lines(case))
    return (
        _retraced(before, after, grown, lines)
        or _predicted(case, grown, lines)
        or _made_anew(case, before, after, grown, lines)
    )


def _graph_line(case: Case, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    sizes = [case.early.resident(_GRAPH_ACCOUNT), case.late.resident(_GRAPH_ACCOUNT)]
    measured = f" ({' -> '.join(map(format_bytes, sizes))} while traced)" if sizes[1] else ""
    return f"live graphs: {_count(before, 'graphs')} -> {_count(after, 'graphs')}{measured}"


def _retraced(
    before: Mapping[str, Any], after: Mapping[str, Any], grown: int, lines: tuple[str, ...]
) -> TracedLeak | None:
    """One function, ever more graphs."""
    known = {row["name"]: row for row in _functions(before)}
    best: tuple[int, Mapping[str, Any]] | None = None
    for row in _functions(after):
        old = known.get(row["name"], {})
        graphs = int(row["graphs"]) - int(old.get("graphs", 0))
        made = int(row["instances"]) - int(old.get("instances", 0))
        if graphs >= _SHARE * grown and graphs > 2 * made and (not best or graphs > best[0]):
            best = (graphs, row)
    if best is None:
        return None
    name, varies = str(best[1]["name"]), [str(v) for v in best[1].get("varies") or ()]
    was = int(known.get(name, {}).get("graphs", 0))
    evidence = (f"graphs of {name}: {was} -> {best[1]['graphs']}", *_why(varies), *lines)
    return TracedLeak(
        Culprit("tf.function", name, is_code=True),
        evidence,
        f"{name} is traced anew: {_remedy(varies)}",
        0.9,
    )


def _why(varies: list[str]) -> tuple[str, ...]:
    return (f"its arguments differ from graph to graph: {', '.join(varies)}",) if varies else ()


def _remedy(varies: list[str]) -> str:
    for text in varies:
        name, _, kind = text.partition(": ")
        if kind in _ARGUMENTS:
            return f"argument {name}: {_ARGUMENTS[kind]}"
        if kind.startswith("Python "):
            return (
                f"every value of {name}, a {kind}, is a graph of its own: pass "
                f"tf.constant({name}), or keep it in a tf.Variable"
            )
    return "give it input_signature, and tensors instead of Python values"


def _predicted(case: Case, grown: int, lines: tuple[str, ...]) -> TracedLeak | None:
    """`model.predict` in a loop: each call leaves a pipeline and its graphs to the collector."""
    caller, calls = _most_calls(case, "predict")
    fits = _most_calls(case, "fit")[1]
    if calls < _CALLS_A_GENERATION * case.generations or grown < _GRAPHS_A_PREDICT * calls:
        return None
    if fits > calls:
        return None
    off = () if case.late.collects else ("the garbage collector is off, and only it frees them",)
    return TracedLeak(
        Culprit("keras model.predict", caller, is_code=True),
        (f"model.predict was called {calls:,} times by {caller}", *off, *lines),
        f"model.predict in {caller} builds a data pipeline and its graphs in every call: call the "
        "model itself, model(x, training=False), or model.predict_on_batch(x)"
        + ("; and gc.enable()" if off else ""),
        0.9,
    )


def _made_anew(
    case: Case,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    grown: int,
    lines: tuple[str, ...],
) -> TracedLeak | None:
    """Ever more functions: models, or functions defined in a loop."""
    caller, fits = _most_calls(case, "fit")
    if fits >= _SHARE * case.generations and grown >= fits:
        path = _container_of_models(case, fits)
        if path:
            return TracedLeak(
                Culprit("keras model", path),
                (f"model.fit was called {fits:,} times by {caller}", *lines),
                f"{path} keeps every model, with its variables and graphs: drop models that are "
                "done, or keep model.get_weights()",
                0.9,
            )
        return TracedLeak(
            Culprit("keras model", caller, is_code=True),
            (f"model.fit was called {fits:,} times by {caller}", *lines),
            f"{caller} trains ever new models, and their graphs stay: {_REUSE}",
            0.85,
        )
    known = {row["name"]: int(row["instances"]) for row in _functions(before)}
    for row in _functions(after):
        made = int(row["instances"]) - known.get(row["name"], 0)
        if made >= _SHARE * case.generations and 2 * made >= _SHARE * grown:
            name = str(row["name"])
            return TracedLeak(
                Culprit("tf.function", name, is_code=True),
                (f"functions {name}: {known.get(name, 0)} -> {row['instances']}", *lines),
                f"{name} is made into a tf.function again and again: decorate it once, outside of "
                "the loop",
                0.85,
            )
    return TracedLeak(Culprit("FuncGraph", ""), lines, f"ever more graphs are alive: {_REUSE}", 0.6)


def _container_of_models(case: Case, fits: int) -> str:
    before = {c.get("path"): int(c.get("length") or 0) for c in case.early.containers}
    for container in case.late.containers:
        path, kind = str(container.get("path")), str(container.get("of"))
        grown = int(container.get("length") or 0) - before.get(path, 0)
        is_model = kind.startswith(("keras.", "tf_keras.")) and ".models." in kind
        if is_model and not path.startswith("<") and grown >= _SHARE * fits:
            return path
    return ""


def _most_calls(case: Case, method: str) -> tuple[str, int]:
    """The user's function that called it most between the looks."""
    before = _callers(case.early.tensorflow, method)
    calls = {
        name: count - before.get(name, 0)
        for name, count in _callers(case.late.tensorflow, method).items()
    }
    best = max(calls, key=lambda name: calls[name], default="")
    return best, calls.get(best, 0)


def _callers(facts: Mapping[str, Any], method: str) -> dict[str, int]:
    callers = facts.get("callers")
    found = callers.get(method) if isinstance(callers, dict) else None
    rows = found.items() if isinstance(found, dict) else ()
    return {str(name): count for name, count in rows if isinstance(count, int)}


def _functions(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = facts.get("functions")
    return [row for row in rows if isinstance(row, dict) and _is_row(row)] if (
        isinstance(rows, list)) else []  # fmt: skip


def _is_row(row: Mapping[str, Any]) -> bool:
    counts = (row.get("graphs"), row.get("instances"))
    return isinstance(row.get("name"), str) and all(isinstance(n, int) for n in counts)


def _count(facts: Mapping[str, Any], name: str) -> int:
    value = facts.get(name)
    return value if isinstance(value, int) else 0
