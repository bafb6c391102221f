"""Samples of the call stack: growth by function, and iterations where the program marks none."""

import os
import time
from collections.abc import Callable

from ramledger.agent.periodic_tasks import Clock
from ramledger.event_parts import LoopPlace
from ramledger.events import Event, FunctionGrowthEvent
from ramledger.measure.children_and_shm import ChildrenAndShmMeter
from ramledger.measure.own_memory import Meter
from ramledger.phases.loop_callees import InferredPhases
from ramledger.phases.loop_finder import LoopFinder, main_thread_id, user_frames
from ramledger.phases.phase_log import FRAMEWORK, INFERRED, PhaseLog

_ITERATION_SECONDS = 0.1  # faster turns of a loop count as one iteration
_MOST_FUNCTIONS = 20
_LEAST_SECONDS = 0.01  # of a function, to be listed

Send = Callable[[Event], None]


class LoopSampler:
    """Finds the training loop in the call stack, and counts its turns where nobody else does."""

    def __init__(
        self,
        log: PhaseLog,
        send: Send,
        *,
        meter: Meter,
        clock: Clock = time.monotonic,
    ) -> None:
        self._log, self._send = log, send
        self._meter, self._clock = meter, clock
        self._outside = ChildrenAndShmMeter()
        self._loops = LoopFinder()
        self._inferred = InferredPhases(log)
        self._sampled_at = self._counted_at = clock()
        self._turns = 0
        self._has_turned = self._is_around = False
        self._loop = ""
        self.call = ""  # what the training loop calls now
        self.has_counted = False  # an iteration, with the last sample

    def sample(self) -> None:
        """Read the call stack once. No frame is kept."""
        now = self._clock()
        frames, outer = user_frames(main_thread_id())
        self._has_turned = self.has_counted = False
        try:
            self._has_turned = self._loops.sample(frames, self._levels(), now - self._sampled_at)
            self._loop, self.call = self._loops.current(frames)
            self._is_around = self._loops.is_around(frames, outer)
            found = self._loops.frame_of_loop(frames)
            if found and self._log.origin == INFERRED:
                self._inferred.wrap_callees(*found)
        finally:
            found = None
            frames.clear()
        self._sampled_at = now

    @property
    def is_needed(self) -> bool:
        """Whether nobody else counts iterations.

        A loop of the user's around a framework's own iterations is the training loop.
        """
        origin = self._log.origin
        return origin in ("", INFERRED) or (origin == FRAMEWORK and self._is_around)

    def count_iteration(self) -> None:
        """Begin the next iteration where the loop has turned with the last sample."""
        now = self._clock()
        if not (self._has_turned and self.is_needed):
            return
        if now - self._counted_at < _ITERATION_SECONDS:
            return
        self._counted_at, self.has_counted = now, True
        number = self._loops.number
        self._turns = self._turns + 1 if number is None else number
        self._log.generation(self._turns, origin=INFERRED)

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
                    seconds={
                        name: round(seconds, 2)
                        for name, seconds in sums.seconds.items()
                        if seconds >= _LEAST_SECONDS
                    },
                    loop=LoopPlace(self._loop, self.call) if self._loop else None,
                )
            )  # fmt: skip

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
