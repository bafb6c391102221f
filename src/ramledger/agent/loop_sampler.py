"""Samples of the call stack: growth by function, and iterations where the program marks none."""

import os
import sys
import time
import types
from collections.abc import Callable

from ramledger.agent.periodic_tasks import Clock
from ramledger.event_parts import LoopPlace
from ramledger.events import Event, FunctionGrowthEvent
from ramledger.measure.children_and_shm import ChildrenAndShmMeter
from ramledger.measure.own_memory import Meter
from ramledger.phases.call_stack import CallStack, main_thread_id, read_call_stack
from ramledger.phases.loop_callees import InferredPhases
from ramledger.phases.loop_finder import LoopFinder, TrainingLoop
from ramledger.phases.phase_log import PhaseLog, Rank
from ramledger.phases.progress import Progress, StepReader, outermost_bar

_MOST_FUNCTIONS = 20
_LEAST_SECONDS = 0.01  # of a function, to be listed

Send = Callable[[Event], None]


class LoopSampler:
    """Finds the training loop in the call stack, and counts its passes where nobody else does."""

    def __init__(
        self,
        log: PhaseLog,
        send: Send,
        *,
        meter: Meter,
        clock: Clock = time.monotonic,
        user_counts: Callable[[], bool] = lambda: False,
    ) -> None:
        self._log, self._send = log, send
        self._meter, self._clock = meter, clock
        self._user_counts = user_counts
        self._outside = ChildrenAndShmMeter()
        self._loops = LoopFinder()
        self._steps = StepReader()
        self._inferred = InferredPhases(log, self._begin)
        self._sampled_at = clock()
        self._is_around = False
        self._loop = ""
        self.in_loop_at: float | None = None  # when the training loop was last seen
        self.call = ""  # what the training loop calls now
        self.has_counted = False  # an iteration, with the last sample
        log.is_in_loop = self._is_called_by_loop

    def sample(self) -> None:
        """Read the call stack once, and begin the next iteration where the loop has turned.

        No frame is kept.
        """
        now = self._clock()
        stack = read_call_stack(main_thread_id())
        self.has_counted = False
        try:
            has_turned = self._loops.sample(stack, self._levels(), now - self._sampled_at)
            self._loop, self.call = self._loops.current(stack)
            self._is_around = self._loops.is_around(stack)
            if self._loops.is_in_loop:
                self.in_loop_at = now
                self._count(stack, has_turned=has_turned)
        finally:
            stack.frames.clear()
        self._sampled_at = now

    @property
    def is_needed(self) -> bool:
        """Whether nobody else counts iterations.

        A loop of the user's around a framework's own iterations is the training loop; one that
        comes after them, in which the model plays, is not.
        """
        rank = self._log.rank
        if rank > Rank.LOOP_AROUND or self._user_counts():
            return False
        is_around = self._is_around and self._log.framework_was_in_loop
        return rank in (Rank.NOBODY, Rank.LOOP, Rank.LOOP_AROUND) or is_around

    @property
    def trains(self) -> bool:
        """Whether training was seen in the loop; True where somebody else counts."""
        return self._loops.trains or self._log.rank not in (Rank.NOBODY, Rank.LOOP)

    @property
    def is_over(self) -> bool:
        """Whether the loop that was counted has ended, as far as one can know now."""
        loops = self._loops
        is_counted = self._log.rank in (Rank.LOOP, Rank.LOOP_AROUND)
        return is_counted and loops.trains and not loops.is_in_loop

    def ended_at(self) -> float | None:
        """When the training ended, asked at exit; None where that is not known.

        A loop in which no training was seen must have lasted longer than what came after it.
        """
        rank, left, seen = self._log.rank, self._log.left_at, self.in_loop_at
        if rank in (Rank.LOOP, Rank.LOOP_AROUND):
            times = [t for t in (left, seen) if t is not None]
            ended = max(times, default=None)
            is_sure = ended is not None and (
                self._loops.trains or self._loops.seconds > self._clock() - ended
            )
            return ended if is_sure else None
        if rank == Rank.NUMBERS and left is None:
            return seen if self._loops.trains else None
        return left

    def _count(self, stack: CallStack, *, has_turned: bool) -> None:
        loop, frame = self._loops.loop, self._loops.frame_of_loop(stack)
        if loop is None or frame is None or not self.is_needed:
            return
        if self._log.rank in (Rank.NOBODY, Rank.LOOP, Rank.LOOP_AROUND):
            self._inferred.wrap_callees(frame, loop)
        value = self._loops.value_in(frame)
        number = loop.counter.see(id(frame), value, self._clock(), turned=has_turned)
        if number is not None:
            self.has_counted = True
            self._begin(number, frame)

    def _begin(self, number: int, frame: types.FrameType) -> None:
        loop, rank = self._loops.loop, self._log.rank
        if loop is not None and self.is_needed:
            around = rank in (Rank.FRAMEWORK, Rank.TRIAL, Rank.LOOP_AROUND)
            self._log.loop_pass(number, loop.name, self._progress(loop, frame), around=around)

    def _progress(self, loop: TrainingLoop, frame: types.FrameType) -> Progress:
        counter, plan = loop.counter, loop.counter.plan
        last = counter.last_number
        if plan.stride is not None and plan.stride > 1 and counter.value is not None:
            return Progress(max(0, counter.value), plan.end, last)
        steps, planned = self._steps.read(frame, without=loop.variable)
        if steps is not None and plan.bound is not None:
            planned = plan.bound
        bar = outermost_bar() if steps is None and last is None else None
        if bar is not None and bar.total:
            return Progress(bar.done, bar.total)
        return Progress(steps, planned, last)

    def _is_called_by_loop(self) -> bool:
        """Whether the program's thread is inside the training loop, asked by that thread."""
        loop = self._loops.loop
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None and loop is not None:
            if frame.f_code is loop.code:
                return loop.lines[0] <= (frame.f_lineno or 0) <= loop.lines[1]
            frame = frame.f_back
        return False

    def send_functions(self) -> None:
        """Growth by function since the last call."""
        sums = self._loops.take_sums()
        if sums.samples:
            growth = {
                kind: dict(grown.most_common(_MOST_FUNCTIONS))
                for kind, grown in sums.growth_bytes.items()
            }
            self._send(
                FunctionGrowthEvent(
                    t=self._clock(), pid=os.getpid(), samples=sums.samples, **growth,
                    line_growth_bytes=sums.line_growth_bytes,
                    seconds={
                        name: round(seconds, 2)
                        for name, seconds in sums.seconds.items()
                        if seconds >= _LEAST_SECONDS
                    },
                    loop=LoopPlace(self._loop, self.call) if self._loop else None,
                )
            )  # fmt: skip

    def tell_last_pass(self) -> None:
        """At exit, before the log reports it: a loop that reached its end made all its steps."""
        loop = self._loops.loop
        if loop is not None and loop.counter.number == loop.counter.last_number is not None:
            stride, end = loop.counter.plan.stride, loop.counter.plan.end
            if stride is not None and stride > 1:
                self._log.tell(Progress(end, end, loop.counter.last_number))

    def finish(self) -> None:
        """The last growth by function; the loop has ended."""
        self._loop = self.call = ""
        self.send_functions()

    def _levels(self) -> dict[str, int]:
        anon = self._meter.anon_bytes()
        return {
            "growth_bytes": anon,
            "children_growth_bytes": self._outside.children_bytes(anon),
            "shm_growth_bytes": self._outside.shm_bytes(),
        }
