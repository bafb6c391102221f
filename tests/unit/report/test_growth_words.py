"""Live view, log, summary and verdict say the same of one run."""

import io

import pytest
from rich.console import Console

from ramledger.cli.run_screens import Lines
from ramledger.diagnose.finding import CodeLines, Culprit, Diagnosis, Finding, Kind, Verdict
from ramledger.diagnose.live_judge import Judgement, LiveJudge
from ramledger.diagnose.verdict import diagnose
from ramledger.events import Event, Header
from ramledger.ledger import Limit
from ramledger.report.terminal.diagnosis_text import print_diagnosis
from ramledger.report.terminal.growth_words import growing_text, leak_warning, machine_text
from ramledger.report.terminal.live_view import live_lines
from ramledger.report.terminal.run_summary import print_summary
from ramledger.run.history import LIVE
from ramledger.run.model import Run
from ramledger.run.time_left import NOT_GROWING, TimeLeft
from tests.support.report_events import HEADER, MIB, PID, leaking_run, run_of, sample

GIB = 1 << 30
LEAK = Finding(
    Kind.LEAK,
    "leak: train.py:29 adds to Trainer.envs, which is never cleared: 3.1 MiB an iteration",
    culprit=Culprit("Env", "Trainer.envs"),
    bytes_per_generation=round(3.1 * MIB),
    onset_generation=4,
    evidence=("level: 1 -> 2",),
    code=CodeLines(("train.py:29 in Trainer.step: self.envs.append(env)",), ("env.py:3 in Env",)),
)


def live_text(run: Run, now: Judgement, width: int = 120) -> str:
    return "\n".join(line.plain for line in live_lines(run, width, 18, now))


def test_a_leak_in_words() -> None:
    assert growing_text(LEAK) == "growing 3.1 MiB an iteration: Trainer.envs"
    assert leak_warning(LEAK) == f"{LEAK.summary} · self.envs.append(env)"
    nameless = Finding(Kind.LEAK, "leak: x", bytes_per_generation=60 * MIB, per="minute")
    assert leak_warning(nameless) == "leak: x"
    assert growing_text(nameless) == "growing 60.0 MiB a minute"


def test_live_view_summary_and_verdict_agree() -> None:
    events = list(leaking_run(20))
    live = Run(HEADER, keep_events=True, bounds=LIVE)
    for event in events:
        live.take(event)
    recorded = run_of(*events, keep_events=True)
    diagnosis = diagnose(recorded)
    summary, verdict = io.StringIO(), io.StringIO()
    print_summary(live, Console(file=summary, width=120), diagnosis)
    print_diagnosis(diagnosis, Console(file=verdict, width=120))
    assert "growing 16.0 MiB an iteration: trainer.envs" in live_text(
        live, LiveJudge(live).refresh()
    )
    for text in (summary.getvalue(), verdict.getvalue()):
        assert "leak  more and more TradingEnvironment objects stay alive" in text
        assert "16.0 MiB an iteration" in text
        assert "held by     trainer → envs → each a TradingEnvironment" in text


class TestTheLineOfTheLiveView:
    @staticmethod
    def outlook(now: Judgement, header: Header = HEADER) -> str:
        run = run_of(sample(0, {PID: 74 * MIB}), header=header, keep_events=True)
        return live_text(run, now).splitlines()[2]

    @pytest.mark.parametrize(
        "reason", [NOT_GROWING, "too few samples yet", "will plateau at 1 GiB"]
    )
    def test_what_grows_is_never_said_not_to_grow(self, reason: str) -> None:
        now = Judgement(Diagnosis(Verdict.LEAK, "", 9, (LEAK,)), TimeLeft(None, None, None, reason))
        assert self.outlook(now) == "growing 3.1 MiB an iteration: Trainer.envs"
        assert self.outlook(Judgement(None, TimeLeft(None, None, None, reason))) == reason

    def test_growth_and_time_left(self) -> None:
        left = TimeLeft(51, 49, 54, "growing 240.0 MiB/min")
        now = Judgement(Diagnosis(Verdict.LEAK, "", 9, (LEAK,)), left)
        assert self.outlook(now) == (
            "growing 3.1 MiB an iteration: Trainer.envs · limit in 51 s (49 s to 54 s)"
        )
        assert self.outlook(Judgement(None, left)) == "limit in 51 s (49 s to 54 s)"

    def test_a_limit_that_is_days_away_is_no_news(self) -> None:
        days = TimeLeft(20 * 86400, 19 * 86400, 21 * 86400, "growing 1.0 MiB/h")
        assert "limit in" not in self.outlook(Judgement(None, days))

    def test_the_machine_is_another_matter(self) -> None:
        header = Header(command=("x",), limit=Limit(24 * GIB, "host RAM"))
        still = TimeLeft(None, None, None, NOT_GROWING)
        now = Judgement(None, still, TimeLeft(46, 40, 50, "growing"))
        assert self.outlook(now, header) == ("machine full in 46 s: other programs grow")
        assert machine_text(TimeLeft(46, 40, 50, ""), Limit(GIB, "cgroup limit")) == (
            "cgroup limit full in 46 s: other programs grow"
        )
        far = Judgement(None, still, TimeLeft(86400, 40, 50, "growing"))
        assert self.outlook(far, header) == "not growing"

    def test_others_that_hold_most_of_it(self) -> None:
        header = Header(command=("x",), limit=Limit(24 * GIB, "host RAM"))
        run = run_of(sample(0, {PID: 74 * MIB}, available_bytes=GIB), header=header)
        lines = live_text(run, Judgement()).splitlines()
        assert lines[1].startswith("run 74.0 MiB (limit 24.0 GiB, host RAM)")
        assert " 0%" in lines[1]
        assert lines[1].endswith("peak 74.0 MiB · machine 96% full")
        assert lines[2] == "machine 96% full: others hold 22.9 GiB"

    def test_a_certain_leak_is_a_line_of_its_own(self) -> None:
        run = run_of(*leaking_run(3))
        now = Judgement(Diagnosis(Verdict.LEAK, "", 9, (LEAK,)), leak=LEAK)
        assert f"! {leak_warning(LEAK)}" in live_text(run, now).splitlines()[3]
        assert "! leak" not in live_text(run, Judgement(now.diagnosis))


class TestTheLog:
    def test_a_leak_is_said_once(self, capsys: pytest.CaptureFixture[str]) -> None:
        lines, run = Lines(), Run(HEADER)
        leaking = Judgement(Diagnosis(Verdict.LEAK, "", 9, (LEAK,)), leak=LEAK)
        for now in (Judgement(), leaking, leaking, Judgement(leaking.diagnosis), leaking):
            lines.refresh(run, now)
        assert capsys.readouterr().err == f"ramledger: {leak_warning(LEAK)}\n"

    def test_what_was_none_after_all_is_taken_back(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        lines, run = Lines(), Run(HEADER)
        healthy = Judgement(Diagnosis(Verdict.HEALTHY, "flat", 9))
        leaking = Judgement(Diagnosis(Verdict.LEAK, "", 9, (LEAK,)), leak=LEAK)
        for t, now in enumerate((healthy, leaking, healthy, leaking, healthy, healthy, healthy)):
            run.take(sample(10.0 * t, {PID: MIB}))
            lines.refresh(run, now)
        said = capsys.readouterr().err.splitlines()
        assert said[1:] == ["ramledger: Trainer.envs: stopped growing, not a leak"]

    def test_a_followed_run_warns(self, capsys: pytest.CaptureFixture[str]) -> None:
        run = Run(HEADER, keep_events=True, bounds=LIVE)
        judge, lines = LiveJudge(run, share=1e6), Lines()
        events: list[Event] = list(leaking_run(30))
        for event in events:
            run.take(event)
            lines.refresh(run, judge.refresh())
        (said,) = [line for line in capsys.readouterr().err.splitlines() if "leak" in line]
        assert "held by trainer.envs: 16.0 MiB an iteration" in said
