"""Who is named for graphs of TensorFlow whose number only rises, from what snapshots say."""

from typing import Any

from ramledger.diagnose.growth_table import GrowthTable
from ramledger.diagnose.leak_evidence import LeakEvidence
from ramledger.diagnose.tf_retracing import TracedLeak, traced_leak
from ramledger.event_parts import ContainerContent, TensorflowFacts, TracedFunction
from ramledger.run.one_snapshot import Snapshot
from ramledger.run.timeline import Timeline
from tests.support.made_up_recordings import snapshot

NOTHING = GrowthTable(Timeline(), (), {}, {})


def seen(generation: int, **more: Any) -> Snapshot:
    return Snapshot.of(snapshot(generation, {}, **more))


def judged(before: dict[str, Any], after: dict[str, Any], **late: Any) -> TracedLeak | None:
    early = seen(2, tensorflow=TensorflowFacts(**{"graphs": 10, **before}))
    last = seen(12, tensorflow=TensorflowFacts(**{"graphs": 210, **after}), **late)
    return traced_leak(LeakEvidence(early, last, 10, {}, 1, NOTHING))


def function(graphs: int, *varies: str) -> tuple[TracedFunction, ...]:
    return (TracedFunction("a.py:act", instances=1, graphs=graphs, varies=varies),)


def test_a_function_that_gets_new_graphs_is_named_with_its_argument() -> None:
    found = judged({"functions": function(10)}, {"functions": function(210, "n: Python int")})
    assert found is not None
    assert (found.culprit.type, found.culprit.path) == ("tf.function", "a.py:act")
    assert found.culprit.relation == "in"
    assert "tf.constant(n)" in found.advice


def test_the_remedy_follows_the_argument() -> None:
    for varies, word in (("x: shape", "input_signature"), ("x: Python object", "tf.Variable")):
        found = judged({"functions": function(10)}, {"functions": function(210, varies)})
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
    kept = ContainerContent("a.py:MODELS", length=10, of="keras.src.models.sequential.Sequential")
    found = judged({}, calls, containers=(kept,))
    assert found is not None
    assert (found.culprit.path, found.culprit.relation) == ("a.py:MODELS", "held by")


def test_a_few_predictions_a_generation_are_not_blamed() -> None:
    found = judged({}, {"callers": {"predict": {"a.py:evaluate": 10}}})
    assert found is not None
    assert found.culprit.type == "FuncGraph"


def test_graphs_that_do_not_become_more_are_nobodys_fault() -> None:
    assert judged({"graphs": 208}, {}) is None
    assert traced_leak(LeakEvidence(seen(1), seen(9), 8, {}, 1, NOTHING)) is None
