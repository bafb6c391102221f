"""What a run says of its remedies."""

from ramledger.event_parts import ProcessMemory
from ramledger.events import GenerationEvent, ProcessEvent, RemedyEvent, SampleEvent
from ramledger.report.remedy_report import remedies_document, remedy_lines
from ramledger.run.model import Run

MIB = 1 << 20
PID = 7


def run_of(peak: int, seconds: float, *events: RemedyEvent) -> Run:
    run = Run(keep_events=True)
    run.take(ProcessEvent(t=0.0, pid=PID, command="python train.py", has_agent=True))
    run.take(SampleEvent(t=0.1, processes={PID: ProcessMemory(anon_bytes=peak * MIB)}))
    for number in range(5):
        run.take(
            GenerationEvent(
                t=number * seconds, pid=PID, generation=number, anon_bytes=peak * MIB, rss_bytes=1
            )
        )
    for event in events:
        run.take(event)
    return run


def said(text: str, *, is_applied: bool = True, saves: int = 0) -> RemedyEvent:
    return RemedyEvent(
        t=1.0, pid=PID, name="replay", text=text, is_applied=is_applied, saves_bytes=saves
    )


def test_nothing_is_said_without_remedies() -> None:
    run = run_of(100, 1.0)
    assert remedy_lines(run) == []
    assert remedies_document(run) is None


def test_what_was_done_and_what_was_left() -> None:
    run = run_of(
        100, 1.0, said("stored once", saves=5), said("stored once"),
        said("Own stays", is_applied=False),
    )  # fmt: skip
    assert remedy_lines(run) == ["replay: stored once", "replay, no: Own stays"]
    document = remedies_document(run)
    assert document is not None
    assert document["applied"] == [{"name": "replay", "text": "stored once", "saves_bytes": 5}]
    assert document["left"] == [{"name": "replay", "text": "Own stays"}]


def test_a_saving_is_measured_against_an_earlier_run() -> None:
    lines = remedy_lines(run_of(50, 0.5), run_of(100, 1.0))
    assert lines == [
        "measured: peak 100.0 MiB → 50.0 MiB, 50% less",
        "measured: 1 → 2 iterations a second (+100%)",
    ]


def test_what_did_not_pay_is_said() -> None:
    lines = remedy_lines(run_of(100, 1.0), run_of(100, 1.0))
    assert lines[0] == "measured: no saving, the peak is 100.0 MiB as before"
    assert "more" in remedy_lines(run_of(120, 1.0), run_of(100, 1.0))[0]
