"""A run judged while it goes on: what it says of made-up levels, when, and at which cost."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from ramledger.diagnose import live_judge
from ramledger.diagnose.finding import Verdict
from ramledger.diagnose.live_judge import SHARE, Judgement, LiveJudge, owner_of, time_left_of
from ramledger.diagnose.verdict import diagnose
from ramledger.event_parts import ContainerContent
from ramledger.events import Event, Header
from ramledger.ledger import Limit
from ramledger.run.history import LIVE
from ramledger.run.model import Run
from ramledger.run.time_left import NOT_GROWING
from tests.support.report_events import (
    HEADER,
    MIB,
    PID,
    generation,
    leaking_run,
    process,
    run_of,
    sample,
    snapshot,
    statement,
)

GIB = 1 << 30
ON_A_MACHINE = Header(command=("python", "train.py"), limit=Limit(24 * GIB, "host RAM"))
BASE = 500
STEP_SECONDS = 4.0

Level = Callable[[int], float]  # MiB after an iteration


def training(
    owner: Level, iterations: int, *, others: Callable[[float], int] | None = None,
    capacity: int | None = None,
) -> Iterator[Event]:  # fmt: skip
    """500 MiB, and an owner that holds so many MiB in a list; a snapshot every second iteration."""
    yield process(PID, "python train.py")
    for number in range(iterations):
        t = STEP_SECONDS * number
        held = [owner(number) + (owner(number + 1) - owner(number)) * k / 8 for k in range(9)]
        for step in range(8):
            at = t + step / 2
            own = round((BASE + held[step]) * MIB)
            left = 20 * GIB - (others(at) if others is not None else 0) - own
            yield sample(at, {PID: own}, available_bytes=left)
        size = round(held[-1] * MIB)
        yield generation(t + 3.9, number, BASE * MIB + size)
        if number % 2 == 0:
            accounts = {"variables/Trainer.kept": size, "imports/torch": BASE * MIB}
            container = ContainerContent(
                "Trainer.kept", type="list", length=round(held[-1]), of="numpy.ndarray",
                bytes=size, capacity=capacity, account="variables/Trainer.kept",
            )  # fmt: skip
            document = statement(accounts, rss_bytes=BASE * MIB + size)
            yield snapshot(t + 3.95, document, generation=number, containers=(container,))


def followed(events: Iterator[Event], header: Header = ON_A_MACHINE) -> list[Judgement]:
    """All judgements of a run that is followed, without a bound on their cost."""
    run = Run(header, keep_events=True, bounds=LIVE)
    judge = LiveJudge(run, share=1e6)
    found = []
    for event in events:
        run.take(event)
        found.append(judge.refresh())
    assert not judge.trouble
    return found


class TestWhatItSays:
    def test_a_flat_level(self) -> None:
        found = followed(training(lambda n: 10.0, 30))
        last = found[-1]
        assert last.diagnosis is not None and last.run_left is not None
        assert last.diagnosis.verdict is Verdict.HEALTHY
        assert (last.run_left.seconds_left, last.run_left.reason) == (None, NOT_GROWING)
        assert last.machine_left is None
        assert all(one.leak is None and one.growing is None for one in found)

    def test_a_leak_is_certain_before_long_and_has_its_owner(self) -> None:
        found = followed(training(lambda n: 6.0 * n, 30))
        last = found[-1]
        assert last.leak is not None and last.run_left is not None
        assert owner_of(last.leak) == "Trainer.kept"
        assert last.leak.bytes_per_generation == pytest.approx(6 * MIB, rel=0.1)
        room = 20 * GIB - (BASE + 180) * MIB
        assert last.run_left.seconds_left == pytest.approx(room / (6 * MIB / 4), rel=0.1)
        first = next(at for at, one in enumerate(found) if one.leak is not None)
        assert first < 0.7 * len(found)
        assert all(one.leak is not None for one in found[first:])

    def test_a_leak_is_seen_before_it_is_certain(self) -> None:
        found = followed(training(lambda n: 6.0 * n, 30))
        seen = next(at for at, one in enumerate(found) if one.growing is not None)
        certain = next(at for at, one in enumerate(found) if one.leak is not None)
        assert seen < certain

    def test_a_buffer_that_fills_ends_at_its_capacity(self) -> None:
        found = followed(training(lambda n: min(100.0, 4.0 * n), 20, capacity=100))
        assert all(one.growing is None for one in found)
        last = found[-1]
        assert last.run_left is not None and last.run_left.seconds_left is None
        assert last.run_left.settles_at_bytes == pytest.approx((BASE + 100) * MIB, rel=0.02)

    def test_a_buffer_that_will_not_fit(self) -> None:
        limit = Header(command=("x",), limit=Limit(700 * MIB, "--limit"))
        found = followed(training(lambda n: 4.0 * n, 20, capacity=1000), limit)
        last = found[-1]
        assert last.growing is None and last.run_left is not None
        assert last.run_left.seconds_left == pytest.approx((200 - 80) / 1.0, rel=0.1)
        assert "fills" in last.run_left.reason

    def test_teeth_are_no_growth(self) -> None:
        found = followed(training(lambda n: 15.0 * (n % 5), 40))
        last = found[-1]
        assert all(one.leak is None for one in found)
        assert last.growing is None and last.run_left is not None
        assert last.run_left.seconds_left is None

    def test_a_warm_up_that_ends(self) -> None:
        found = followed(training(lambda n: 30.0 * min(n, 4), 40))
        assert all(one.leak is None for one in found)
        last = found[-1]
        assert last.run_left is not None and last.run_left.reason == NOT_GROWING

    def test_programs_that_start_are_not_judged(self) -> None:
        samples = [sample(t / 2, {PID: (20 + 100 * t) * MIB}) for t in range(40)]
        left, machine = time_left_of(run_of(*samples, header=ON_A_MACHINE, keep_events=True))
        assert left is not None and left.seconds_left is None
        assert (left.reason, machine) == ("starting", None)

    def test_without_a_limit_there_is_no_time_left(self) -> None:
        run = run_of(*leaking_run(12), header=Header(), keep_events=True)
        assert time_left_of(run) == (None, None)


class TestTheMachine:
    def test_other_programs_fill_it(self) -> None:
        found = followed(training(lambda n: 10.0, 30, others=lambda t: round(50 * MIB * t)))
        last = found[-1]
        assert last.run_left is not None and last.machine_left is not None
        assert last.run_left.reason == NOT_GROWING
        left = 20 * GIB - (BASE + 10) * MIB - round(50 * MIB * 119.5)
        assert last.machine_left.seconds_left == pytest.approx(left / (50 * MIB), rel=0.05)
        assert last.growing is None

    def test_others_that_hold_much_leave_less(self) -> None:
        """They do not grow, so nothing is said of the machine; the run reaches its limit sooner."""
        found = followed(training(lambda n: 6.0 * n, 30, others=lambda t: 10 * GIB))
        last = found[-1]
        assert last.machine_left is None and last.run_left is not None
        room = 10 * GIB - (BASE + 180) * MIB
        assert last.run_left.seconds_left == pytest.approx(room / (6 * MIB / 4), rel=0.1)

    def test_a_run_that_fills_it_by_itself(self) -> None:
        found = followed(training(lambda n: 60.0 * n, 30))
        assert found[-1].machine_left is None
        assert found[-1].run_left is not None and found[-1].run_left.seconds_left is not None


class TestCost:
    @pytest.mark.parametrize("cost", [0.05, 0.2])
    def test_it_takes_no_more_than_its_share(self, cost: float) -> None:
        """Whatever one judgement takes: an expensive one is made less often."""
        run = Run(ON_A_MACHINE, keep_events=True, bounds=LIVE)
        spent = 0.0

        def clock() -> float:
            nonlocal spent
            spent += cost
            return spent

        judge = LiveJudge(run, clock=clock)
        for event in training(lambda n: 6.0 * n, 80):
            run.take(event)
            judge.refresh()
        judgements = spent / cost / 2
        assert judgements * cost <= 2 * 0.25 + SHARE * run.now_seconds
        assert judgements >= 2

    def test_it_is_not_made_with_every_event(self, monkeypatch: pytest.MonkeyPatch) -> None:
        times: list[float] = []
        run = Run(ON_A_MACHINE, keep_events=True, bounds=LIVE)

        def noted(judged: Run) -> object:
            times.append(judged.now_seconds)
            return diagnose(judged)

        monkeypatch.setattr(live_judge, "diagnose", noted)
        judge = LiveJudge(run, share=1e6)
        for event in training(lambda n: 6.0 * n, 20):
            run.take(event)
            judge.refresh()
        assert all(b - a >= live_judge.LEAST_SECONDS for a, b in pairwise(times))

    def test_between_two_judgements_the_time_left_goes_by(self) -> None:
        run = run_of(*leaking_run(20), header=HEADER, keep_events=True)
        judge = LiveJudge(run)
        before = judge.refresh().run_left
        run.take(sample(run.now_seconds + 2.0, {PID: 420 * MIB}))
        after = judge.now.run_left
        assert before is not None and before.seconds_left is not None
        assert after is not None and after.seconds_left == pytest.approx(before.seconds_left - 2.0)

    def test_a_judgement_that_fails_ends_nothing_else(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(run: Run) -> object:
            raise ZeroDivisionError("made up")

        monkeypatch.setattr(live_judge, "diagnose", broken)
        run = run_of(*leaking_run(12), keep_events=True)
        judge = LiveJudge(run)
        found = judge.refresh()
        assert found.run_left is not None
        assert "made up" in judge.trouble
        judge.refresh()
        assert len([note for note in run.notes if "made up" in note]) == 1


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 8, 20])
def test_it_can_be_asked_at_any_time(count: int) -> None:
    events = list(training(lambda n: 6.0 * n, 2))[:count]
    run = run_of(*events, header=ON_A_MACHINE, keep_events=True)
    judge = LiveJudge(run)
    found = judge.refresh()
    assert not judge.trouble
    assert found.growing is None and found.leak is None


@pytest.mark.parametrize("iterations", [12, 40, 700])
def test_live_and_afterwards_it_is_the_same_leak(iterations: int) -> None:
    """Also where the live history had to be thinned."""
    events = list(training(lambda n: 6.0 * n, iterations))
    live = Run(ON_A_MACHINE, keep_events=True, bounds=LIVE)
    for event in events:
        live.take(event)
    now = LiveJudge(live).refresh()
    (leak,) = diagnose(run_of(*events, header=ON_A_MACHINE, keep_events=True)).leaks
    assert now.growing is not None
    assert owner_of(now.growing) == owner_of(leak)
    assert now.growing.cause == leak.cause
    assert now.growing.bytes_per_generation == pytest.approx(leak.bytes_per_generation, rel=0.01)
