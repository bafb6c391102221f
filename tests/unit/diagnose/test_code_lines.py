"""Lines of the program behind a leak: the likeliest first, and only those of the training."""

from ramledger.diagnose.code_lines import code_lines, function_of
from ramledger.diagnose.finding import Cause, Culprit, Explanation
from ramledger.event_parts import ContainerContent
from ramledger.events import FunctionGrowthEvent
from ramledger.ledger import Statement
from ramledger.run.one_snapshot import Snapshot
from ramledger.run.timeline import Point, Timeline

OTHER = "t.py:3 in Reader.load: self.envs.append(x)"
OWN = "t.py:41 in Trainer.evaluate: self.envs.append(env)"
MADE = "t.py:40 in Trainer.evaluate: env = Env()"
IMPORT, STEP = "t.py:1 in <module>: import torch", "t.py:50 in run: step()"


def timeline() -> Timeline:
    container = ContainerContent("Trainer.envs[*]", account="", added_in=(OTHER, OWN))
    snapshot = Snapshot(
        t=5.0, generation=2, phase="", label="", statement=Statement(1, "", 0.0, 0, ()), entries={},
        containers=(container,), code_lines={"__main__.Env": (MADE,)},
    )  # fmt: skip
    growth = [
        FunctionGrowthEvent(t=1.0, pid=1, growth_bytes={"m": 90}, line_growth_bytes={IMPORT: 90}),
        FunctionGrowthEvent(t=6.0, pid=1, growth_bytes={"run": 9}, line_growth_bytes={STEP: 9}),
    ]
    points = [Point(t=float(t), generation=t, anon_bytes=0, file_bytes=0) for t in (2, 3)]
    return Timeline(1, True, points, snapshots=[snapshot], function_growth=growth)


def test_stored_made_and_grown() -> None:
    culprit = Culprit("__main__.Env", "Trainer.envs")
    found = code_lines(timeline(), Explanation(Cause.OBJECT_PINNED, culprit), "evaluate")
    assert found.stored_at == (OWN, OTHER)
    assert found.made_at == (MADE,)
    assert found.grew_at == (STEP,)
    assert found.evidence() == [f"stored at {OWN}", f"stored at {OTHER}", f"made at {MADE}"]


def test_where_nothing_is_stored_the_lines_that_ran_are_named() -> None:
    found = code_lines(timeline(), Explanation(Cause.NATIVE_LEAK), "run")
    assert found.evidence() == [f"memory grew at {STEP}"]


def test_the_function_of_a_line() -> None:
    assert function_of(OWN) == "Trainer.evaluate"
    assert function_of("t.py:41 in run") == "run"
