"""Who is named for ever more graphs of TensorFlow, from what looks say."""

from typing import Any

from ramledger.diagnose.leak_evidence import Case
from ramledger.diagnose.tf_retracing import TracedLeak, traced_leak
from ramledger.run.timeline import Timeline, _look


def look(generation: int, **facts: Any) -> Any:
    return _look({"t": float(generation), "generation": generation, **facts})


def judged(before: dict[str, Any], after: dict[str, Any], **late: Any) -> TracedLeak | None:
    early = look(2, tensorflow={"graphs": 10, **before})
    last = look(12, tensorflow={"graphs": 210, **after}, **late)
    return traced_leak(Case(early, last, 10, {}, 1, Timeline()))


def function(graphs: int, instances: int = 1, *varies: str) -> list[dict[str, Any]]:
    return [{"name": "a.py:act", "graphs": graphs, "instances": instances, "varies": list(varies)}]


def test_a_function_with_ever_more_graphs_is_named_with_its_argument() -> None:
    found = judged({"functions": function(10)}, {"functions": function(210, 1, "n: Python int")})
    assert found is not None
    assert (found.culprit.type, found.culprit.path) == ("tf.function", "a.py:act")
    assert found.culprit.relation == "in"
    assert "tf.constant(n)" in found.advice


def test_the_remedy_follows_the_argument() -> None:
    for varies, word in (("x: shape", "input_signature"), ("x: Python object", "tf.Variable")):
        found = judged({"functions": function(10)}, {"functions": function(210, 1, varies)})
        assert found is not None
        assert word in found.advice


def test_predict_in_a_loop_is_named_by_its_caller() -> None:
    calls = {"callers": {"predict": {"env.py:Env.step": 300}}}
    found = judged({}, calls)
    assert found is not None
    assert (found.culprit.type, found.culprit.path) == ("keras model.predict", "env.py:Env.step")
    assert "model(x, training=False)" in found.advice
    assert "gc.enable()" not in found.advice


def test_with_the_collector_off_that_is_said_as_well() -> None:
    calls = {"callers": {"predict": {"env.py:Env.step": 300}}}
    found = judged({}, calls, gc_enabled=False)
    assert found is not None
    assert "gc.enable()" in found.advice


def test_models_trained_anew_and_a_list_that_keeps_them() -> None:
    calls = {"callers": {"fit": {"a.py:trial": 10}}}
    found = judged({}, calls)
    assert found is not None
    assert found.culprit.path == "a.py:trial"
    kept = {"path": "a.py:MODELS", "length": 10, "of": "keras.src.models.sequential.Sequential"}
    found = judged({}, calls, containers=[kept])
    assert found is not None
    assert (found.culprit.path, found.culprit.relation) == ("a.py:MODELS", "held by")


def test_a_few_predictions_a_generation_are_not_blamed() -> None:
    found = judged({}, {"callers": {"predict": {"a.py:evaluate": 10}}})
    assert found is not None
    assert found.culprit.type == "FuncGraph"


def test_graphs_that_do_not_become_more_are_nobodys_fault() -> None:
    assert judged({"graphs": 208}, {}) is None
    assert traced_leak(Case(look(1), look(9), 8, {}, 1, Timeline())) is None


def test_a_broken_recording_does_not_break_it() -> None:
    odd: dict[str, Any] = {"functions": [{"name": 3}, "x", None], "callers": {"predict": [1]}}
    assert judged(odd, odd) is not None
    assert judged({"functions": 7, "callers": "x"}, {"functions": None}) is not None
