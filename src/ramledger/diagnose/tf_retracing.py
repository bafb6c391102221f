"""TensorFlow's own leak: graphs whose number only rises, and the code that makes them."""

from typing import NamedTuple

from ramledger.diagnose import thresholds
from ramledger.diagnose.finding import Culprit
from ramledger.diagnose.leak_evidence import LeakEvidence, growth_lines
from ramledger.event_parts import TensorflowFacts, TracedFunction
from ramledger.units import format_bytes

_GRAPH_ACCOUNT = "tensorflow/graphs"
_NO_FACTS = TensorflowFacts()

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


def traced_leak(evidence: LeakEvidence) -> TracedLeak | None:
    """Who makes the graphs, where their number rises with the generations."""
    if evidence.late.tensorflow is None:
        return None
    before, after = evidence.early.tensorflow or _NO_FACTS, evidence.late.tensorflow
    grown = after.graphs - before.graphs
    if grown < max(thresholds.LEAST_COUNTED, thresholds.EVERY_ITERATION * evidence.generations):
        return None
    lines = (_graph_line(evidence, before, after), *growth_lines(evidence))
    return (
        _retraced(before, after, grown, lines)
        or _predicted(evidence, grown, lines)
        or _made_anew(evidence, before, after, grown, lines)
    )


def _graph_line(evidence: LeakEvidence, before: TensorflowFacts, after: TensorflowFacts) -> str:
    sizes = [evidence.early.resident(_GRAPH_ACCOUNT), evidence.late.resident(_GRAPH_ACCOUNT)]
    measured = f" ({' -> '.join(map(format_bytes, sizes))} while traced)" if sizes[1] else ""
    return f"live graphs: {before.graphs} -> {after.graphs}{measured}"


def _retraced(
    before: TensorflowFacts, after: TensorflowFacts, grown: int, lines: tuple[str, ...]
) -> TracedLeak | None:
    """One function that gets a new graph again and again."""
    known = {function.name: function for function in before.functions}
    best: tuple[int, TracedFunction] | None = None
    for function in after.functions:
        old = known.get(function.name)
        graphs = function.graphs - (old.graphs if old else 0)
        made = function.instances - (old.instances if old else 0)
        is_most = graphs >= thresholds.MOST * grown and graphs > 2 * made
        if is_most and (not best or graphs > best[0]):
            best = (graphs, function)
    if best is None:
        return None
    gained, found = best
    name, varies = found.name, found.varies
    was = found.graphs - gained
    evidence = (f"graphs of {name}: {was} -> {found.graphs}", *_why(varies), *lines)
    return TracedLeak(
        Culprit("tf.function", name, is_code=True),
        evidence,
        f"{name} is traced anew: {_remedy(varies)}",
    )


def _why(varies: tuple[str, ...]) -> tuple[str, ...]:
    return (f"its arguments differ from graph to graph: {', '.join(varies)}",) if varies else ()


def _remedy(varies: tuple[str, ...]) -> str:
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


def _predicted(evidence: LeakEvidence, grown: int, lines: tuple[str, ...]) -> TracedLeak | None:
    """`model.predict` in a loop: each call leaves a pipeline and its graphs to the collector."""
    caller, calls = _most_calls(evidence, "predict")
    fits = _most_calls(evidence, "fit")[1]
    is_loop = calls >= thresholds.PREDICTS * evidence.generations
    if not is_loop or grown < thresholds.GRAPHS_A_PREDICT * calls or fits > calls:
        return None
    off = (
        () if evidence.late.collects else ("the garbage collector is off, and only it frees them",)
    )
    return TracedLeak(
        Culprit("keras model.predict", caller, is_code=True),
        (f"model.predict was called {calls:,} times by {caller}", *off, *lines),
        f"model.predict in {caller} builds a data pipeline and its graphs in every call: call the "
        "model itself, model(x, training=False), or model.predict_on_batch(x)"
        + ("; and gc.enable()" if off else ""),
    )


def _made_anew(
    evidence: LeakEvidence,
    before: TensorflowFacts,
    after: TensorflowFacts,
    grown: int,
    lines: tuple[str, ...],
) -> TracedLeak | None:
    """New functions again and again: models, or functions defined in a loop."""
    caller, fits = _most_calls(evidence, "fit")
    if fits >= thresholds.EVERY_ITERATION * evidence.generations and grown >= fits:
        path = _container_of_models(evidence, fits)
        if path:
            return TracedLeak(
                Culprit("keras model", path),
                (f"model.fit was called {fits:,} times by {caller}", *lines),
                f"{path} keeps every model, with its variables and graphs: drop models that are "
                "done, or keep model.get_weights()",
            )
        return TracedLeak(
            Culprit("keras model", caller, is_code=True),
            (f"model.fit was called {fits:,} times by {caller}", *lines),
            f"{caller} trains new models repeatedly, and their graphs stay: {_REUSE}",
        )
    known = {function.name: function.instances for function in before.functions}
    for function in after.functions:
        name = function.name
        made = function.instances - known.get(name, 0)
        least = thresholds.EVERY_ITERATION * evidence.generations
        if made >= least and 2 * made >= thresholds.MOST * grown:
            return TracedLeak(
                Culprit("tf.function", name, is_code=True),
                (f"functions {name}: {known.get(name, 0)} -> {function.instances}", *lines),
                f"{name} is made into a tf.function repeatedly: decorate it once, outside of "
                "the loop",
            )
    return TracedLeak(Culprit("FuncGraph", ""), lines, f"more and more graphs are alive: {_REUSE}")


def _container_of_models(evidence: LeakEvidence, fits: int) -> str:
    before = {c.path: c.length for c in evidence.early.containers}
    for container in evidence.late.containers:
        path, kind = container.path, container.of
        grown = container.length - before.get(path, 0)
        is_model = kind.startswith(("keras.", "tf_keras.")) and ".models." in kind
        if is_model and not path.startswith("<") and grown >= thresholds.MOST * fits:
            return path
    return ""


def _most_calls(evidence: LeakEvidence, method: str) -> tuple[str, int]:
    """The user's function that called it most between the snapshots."""
    early, late = evidence.early.tensorflow or _NO_FACTS, evidence.late.tensorflow or _NO_FACTS
    before = early.callers.get(method, {})
    calls = {
        name: count - before.get(name, 0) for name, count in late.callers.get(method, {}).items()
    }
    best = max(calls, key=lambda name: calls[name], default="")
    return best, calls.get(best, 0)
