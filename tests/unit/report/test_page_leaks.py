"""A leak for the page: its account, its chain, its line; and what an iteration is."""

from typing import Any

import pytest

from ramledger.diagnose.finding import (
    Cause,
    CodeLines,
    Culprit,
    Diagnosis,
    Finding,
    GrowthLine,
    Kind,
    Verdict,
)
from ramledger.event_parts import LoopPlace
from ramledger.events import FunctionGrowthEvent
from ramledger.report.account_words import meaning
from ramledger.report.html.page_growth import BETWEEN_PHASES, heat_map
from ramledger.report.html.page_leaks import OTHER_PROCESSES, leaking_account, leaks_document
from ramledger.report.iteration_words import iteration_sentence
from ramledger.run.timeline import PhaseGrowth, Point, Timeline

MIB = 1 << 20


def grown(account: str, mib: int, shape: str = "linear", **more: Any) -> GrowthLine:
    return GrowthLine(account, mib * MIB, mib * MIB, (0, 0), 0.5, shape, **more)


def leak(path: str = "", kind: str = "", cause: Cause = Cause.OBJECT_PINNED) -> Finding:
    return Finding(Kind.LEAK, "leak: x", cause=cause, culprit=Culprit(kind, path))


LOG, ENV, NATIVE = grown("variables/Agent.log", 5), grown("env", 9), grown("native/in use", 4)


@pytest.mark.parametrize(
    ("finding", "growth", "account"),
    [
        # what holds it, though another grew more
        (leak("Agent.log"), [LOG, ENV], LOG.account),
        (leak("Agent.log[*].rows"), [LOG, ENV], LOG.account),
        (leak("Agent.logs"), [LOG, ENV], "env"),
        # its class
        (leak("t.py:CACHE", "__main__.Agent"), [LOG, ENV], LOG.account),
        # no variable is blamed: what fills and what is named are not it
        (leak(), [LOG, NATIVE], NATIVE.account),
        (leak(), [grown("env", 9, "filling"), NATIVE], NATIVE.account),
        (leak(), [grown("variables/a", 90), NATIVE], ""),
        (leak("children", "child process", Cause.OUTSIDE_PROCESS), [ENV], OTHER_PROCESSES),
        (leak(), [grown("env", -9)], ""),
    ],
)
def test_a_leak_is_in_one_account(finding: Finding, growth: list[GrowthLine], account: str) -> None:
    assert leaking_account(finding, growth) == account


def document(finding: Finding, *growth: GrowthLine) -> dict[str, Any]:
    points = [Point(number, 10.0 * number, MIB, 0) for number in range(6)]
    diagnosis = Diagnosis(Verdict.LEAK, "", 6, (finding,), growth=growth)
    (found,) = leaks_document(diagnosis, Timeline(by_generation=True, points=points))
    return found


def test_the_chain_marks_the_reference_that_keeps_it() -> None:
    found = document(
        leak("run():agent.log", "__main__.Row", Cause.UNBOUNDED_CONTAINER),
        grown("variables/run():agent.log", 5, length=7, length_per_generation=1.5),
    )
    assert [(step["name"], step["note"], step["leaks"]) for step in found["chain"]] == [
        ("agent", "a variable of run()", False),
        ("log", "", True),
        ("each a Row", "", False),
    ]
    assert (found["length"], found["length_rate"]) == (7, 1.5)
    (step,) = document(leak("train.py:LOG"))["chain"]
    assert step == {"name": "LOG", "note": "a global variable of train.py", "leaks": True}


def test_what_no_object_holds_has_no_chain() -> None:
    assert document(leak("allocator/free", "malloc", Cause.ALLOCATOR_RETENTION))["chain"] == []
    code = Finding(
        Kind.LEAK, "", cause=Cause.OBJECT_PINNED, culprit=Culprit("A", "f", is_code=True)
    )
    assert document(code)["chain"] == []


def test_the_line_is_taken_apart() -> None:
    code = CodeLines(stored_at=("train.py:29 in Journal.log: self.pages['a: b'] = page",))
    found = document(Finding(Kind.LEAK, "leak: x", code=code))
    assert found["line"] == {
        "place": "train.py:29",
        "function": "Journal.log",
        "text": "self.pages['a: b'] = page",
        "what": "stored here",
    }
    assert document(leak())["line"] is None


def test_the_onset_is_the_end_of_the_last_iteration_that_did_not_add() -> None:
    found = document(Finding(Kind.LEAK, "leak: x", onset_generation=3))
    assert found["onset"] == {"generation": 3, "t": 20.0}
    assert document(Finding(Kind.LEAK, "leak: x", onset_generation=0))["onset"]["t"] == 0.0
    assert document(leak())["onset"] is None


def phases(*numbers: int) -> Timeline:
    points = [Point(number, float(number), number * MIB, 0) for number in numbers]
    grown_in = [PhaseGrowth("collect", n, 0.0, 0, 0, 1.0, "inferred") for n in numbers]
    loop = FunctionGrowthEvent(t=1.0, pid=1, loop=LoopPlace("train.py:train", "collect"))
    return Timeline(by_generation=True, points=points, phases=grown_in, function_growth=[loop])


def test_a_column_covers_all_iterations_since_the_one_before() -> None:
    heat = heat_map(phases(0, 3, 4, 9), None)
    assert heat is not None
    assert [tuple(column[:2]) for column in heat["columns"]] == [(0, 0), (1, 3), (4, 4), (5, 9)]


def test_a_leak_in_the_function_with_the_loop_is_in_none_of_its_phases() -> None:
    diagnosis = Diagnosis(Verdict.LEAK, "", 4, (Finding(Kind.LEAK, "", phase="train"),))
    heat = heat_map(phases(0, 1, 2, 3), diagnosis)
    assert heat is not None
    assert heat["rows"][heat["culprit"]] == BETWEEN_PHASES
    other = Diagnosis(Verdict.LEAK, "", 4, (Finding(Kind.LEAK, "", phase="evaluate"),))
    heat = heat_map(phases(0, 1, 2, 3), other)
    assert heat is not None
    assert heat["culprit"] is None


@pytest.mark.parametrize(
    ("counted_by", "sentence"),
    [
        ("train.py:run, line 168", "one pass of the loop at train.py:168, in run()"),
        ("t.py:<module>, line 9", "one pass of the loop at t.py:9"),
        ("the program", "one that the program numbers itself"),
        ("phases", "one pass through the phases that the program marks"),
        ("collect", "the time from one collect to the next"),
        ("", "one pass through all phases"),
    ],
)
def test_an_iteration_is_said_in_a_sentence(counted_by: str, sentence: str) -> None:
    assert iteration_sentence(counted_by, is_known=True) == f"An iteration here is {sentence}."
    assert "per minute" in iteration_sentence(counted_by, is_known=False)


@pytest.mark.parametrize("account", ["imports/other", "libraries/other", "files/other"])
def test_other_is_no_name(account: str) -> None:
    assert "other" in meaning(account)
    assert not meaning(account).endswith(("of other", "other costs"))
