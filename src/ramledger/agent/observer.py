"""What the agent does in a process under `ramledger run`: two tables of tasks, and the end.

The agent's thread samples the call stack between questions; when an iteration ends, the program's
own thread measures. All of it is bounded by shares of the time, and nothing may raise into the
program.
"""

import atexit
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from ramledger.agent.event_link import EventLink
from ramledger.agent.loop_sampler import LoopSampler
from ramledger.agent.observer_settings import ObserverSettings
from ramledger.agent.periodic_tasks import Clock, Pace, PeriodicTask, Schedule
from ramledger.agent.pressure_callbacks import on_pressure, run_callbacks
from ramledger.agent.release_probe import LiveProbes, probe
from ramledger.agent.server import between_questions, register_handler, start_agent
from ramledger.agent.snapshot_event import take_names_snapshot
from ramledger.agent.snapshot_taker import SnapshotTaker
from ramledger.events import (
    AllocatorsEvent,
    CurrentPhaseEvent,
    Event,
    NoteEvent,
    ProcessEvent,
    ProgramEndEvent,
    SuggestionEvent,
)
from ramledger.fork_lock import ForkLock
from ramledger.hooks import keras_calls, optuna_search, sb3_rescue, tf_graph_costs
from ramledger.hooks.import_costs import is_importing, on_import
from ramledger.interpreter.type_facts import short
from ramledger.ledger import Statement
from ramledger.measure.allocators import malloc, pymalloc
from ramledger.measure.own_memory import Meter
from ramledger.objects.names.walk_roots import Root
from ramledger.phases.phase_log import END, PHASES
from ramledger.phases.progress import outermost_bar
from ramledger.phases.wrapped_functions import FRAMEWORK_METHODS, NamedPhases, wrap_framework

# samples of the call stack; what a snapshot costs meanwhile has a budget of its own
_STACK_PACE = Pace(
    share=0.004, early_share=0.02, early_seconds=3.0,
    shortest_seconds=0.01, longest_seconds=0.25, counted_seconds=0.001,
)  # fmt: skip
_WORKER_PACE = Pace(shortest_seconds=1.0, longest_seconds=1.0)
_FUNCTIONS_PACE = Pace(shortest_seconds=1.0, longest_seconds=30.0, age_share=0.03)
_ALLOCATORS_PACE = Pace(share=1 / 300)
_CALLBACK_SECONDS = 50.0
_LAST_SEND_SECONDS = 5.0
ITERATION = "iteration"  # the name of its end, beside those of phases
# remedies that the user asked for, called with the name of what ends: a phase, or an iteration
AT_ENDS: list[Callable[[str], None]] = []


class Observer:
    """One process of a run, observed by its agent."""

    def __init__(
        self,
        settings: ObserverSettings,
        *,
        clock: Clock = time.monotonic,
        cost_clock: Clock = time.thread_time,
    ) -> None:
        self.settings = settings
        self.link = EventLink(settings.recorder)
        self._clock, self._cost_clock = clock, cost_clock
        self._meter = Meter()
        self.snapshots = self._new_taker()
        self._named = NamedPhases(settings.phases, PHASES)
        self._loop = LoopSampler(
            PHASES, self._send, meter=self._meter, clock=clock,
            user_counts=lambda: bool(self._named.found),
        )  # fmt: skip
        self._probes = LiveProbes(settings.probe)
        self._sent_now: tuple[str, int | None, bool] = ("", None, False)
        self._iteration = 0
        self._is_worker = _is_worker()
        self._make_tables()

    def _new_taker(self) -> SnapshotTaker:
        return SnapshotTaker(
            self.settings, self._send, meter=self._meter, clock=self._clock,
            cost_clock=self._cost_clock, on_containers=PHASES.element_counts.follow,
        )  # fmt: skip

    def _make_tables(self) -> None:
        """Which tasks there are. A worker is looked into once it grows, its stack not sampled."""
        first = [
            PeriodicTask("named phases", self._named.wrap_new),
            PeriodicTask("phase of now", self._send_now),
            PeriodicTask("settle", self.snapshots.settle),
        ]
        main = [
            PeriodicTask("call stack", self._loop.sample),
            PeriodicTask("functions", self._loop.send_functions, _FUNCTIONS_PACE),
            PeriodicTask("snapshot", self._snapshot_within_iteration),
            PeriodicTask("peak", self._snapshot_at_peak),
        ]
        last = [PeriodicTask("send", self.link.flush)]
        at_end = [
            PeriodicTask("probe", self._probe_if_due),
            PeriodicTask("allocators", self._send_allocators, _ALLOCATORS_PACE),
        ]
        if self._is_worker:
            own = PeriodicTask("snapshot", self._snapshot_of_worker)
            self._between_questions = self._schedule([*first, own, *last], _WORKER_PACE)
            self._at_iteration_end = self._schedule(at_end)
            return
        pace = _STACK_PACE.scaled(self.settings.stack_share)
        self._between_questions = self._schedule([*first, *main, *last], pace)
        at_end.append(PeriodicTask("snapshot", self._snapshot_after_iteration))
        self._at_iteration_end = self._schedule(at_end)

    def _schedule(self, tasks: list[PeriodicTask], pace: Pace | None = None) -> Schedule:
        return Schedule(
            tasks, clock=self._clock, cost_clock=self._cost_clock, pace=pace or Pace(),
            on_drop=self._note_dropped,
        )  # fmt: skip

    def start(self) -> None:
        """Announce this process and hook what can be hooked."""
        self._announce()
        self._hook_frameworks()
        atexit.register(self.at_exit)

    def continue_in_fork(self) -> None:
        """In a forked child, with the parent's hooks in place: only the link is new.

        Every object touched is a page of its own in each worker.
        """
        self.link = EventLink(self.settings.recorder)
        self.snapshots = self._new_taker()
        self.snapshots.count_own_growth()
        self._is_worker = True
        self._make_tables()
        self._announce()

    def _announce(self) -> None:
        PHASES.sink = self._send
        PHASES.on_generation = self.iteration_ended
        PHASES.before_end = self.phase_ends
        self._send(
            ProcessEvent(
                t=self._clock(), pid=os.getpid(), parent_pid=os.getppid(), has_agent=True,
                is_worker=self._is_worker, python=sys.version.split()[0],
            )
        )  # fmt: skip

    def _hook_frameworks(self) -> None:
        hooks: dict[str, list[Callable[[Any], None]]] = {
            name: [_wrap] for name in FRAMEWORK_METHODS
        }
        hooks[tf_graph_costs.MODULE] = [tf_graph_costs.measure_traces]
        hooks |= {name: [keras_calls.count_calls] for name in keras_calls.MODULES}
        if self.settings.rescue_folder:
            rescue = sb3_rescue.Rescue(self.settings.rescue_folder, self._note, on_pressure)
            hooks[sb3_rescue.MODULE].append(rescue.watch)
        if self.settings.is_rehearsal:
            hooks[optuna_search.STORAGES] = [optuna_search.keep_in_memory]
            report = optuna_search.report_suggestions(self._suggested, self.settings.corner)
            hooks[optuna_search.TRIALS] = [report]
        for name, callbacks in hooks.items():
            for callback in callbacks:
                on_import(name, callback)

    def _send(self, event: Event) -> None:
        self.link.put(event)

    def tell(self, event: Event) -> None:
        """An event of another room that runs in this process."""
        self._send(event)

    def _note(self, text: str) -> None:
        self._send(NoteEvent(t=self._clock(), pid=os.getpid(), text=text))

    def _suggested(self, name: str, *sizes: Any) -> None:
        value, lowest, highest = (short(repr(size)) for size in sizes)
        self._send(
            SuggestionEvent(
                t=self._clock(), pid=os.getpid(), name=short(name), value=value, lowest=lowest,
                highest=highest,
            )
        )  # fmt: skip

    def _note_dropped(self, task: str, error: Exception) -> None:
        reason = short(f"{type(error).__name__}: {error}")
        self._note(f"the agent stopped its task {task!r}, which failed repeatedly ({reason})")

    # ---- tasks of the agent's thread --------------------------------------------------------

    def tick(self) -> float:
        """Run what is due between two questions; the seconds until the next call."""
        return self._between_questions.run_due()

    def _send_now(self) -> None:
        """The live view shows what runs now; it is not recorded."""
        phase, generation = PHASES.now
        has_bar = outermost_bar() is not None
        if (phase, generation, has_bar) != self._sent_now:
            self._sent_now = (phase, generation, has_bar)
            self._send(
                CurrentPhaseEvent(
                    t=self._clock(), pid=os.getpid(), generation=generation, phase=phase,
                    has_bar=has_bar,
                )
            )  # fmt: skip

    def _snapshot_within_iteration(self) -> None:
        """Before the first iteration, and within very long ones."""
        if self._loop.has_counted or not self._loop.is_needed:
            return
        is_due = (
            self.snapshots.is_due(in_loop=False, trains=self._loop.trains) and not is_importing()
        )
        if is_due and self.snapshots.is_allowed():
            phase = END if self._loop.is_over else self._loop.call
            self.snapshots.take(generation=PHASES.now[1], phase=phase)

    def _snapshot_at_peak(self) -> None:
        """Peaks lie within iterations, too."""
        if self.snapshots.is_due_at_peak() and not is_importing() and self.snapshots.is_allowed():
            phase, generation = PHASES.now
            self.snapshots.take(generation=generation, phase=phase or self._loop.call)

    def _snapshot_of_worker(self) -> None:
        """A worker that grows by itself says what it holds."""
        is_due = self.snapshots.is_due_in_worker() and not is_importing()
        if is_due and self.snapshots.is_allowed():
            phase, generation = PHASES.now
            self.snapshots.take(generation=generation, phase=phase)

    # ---- tasks at the end of an iteration ---------------------------------------------------

    def iteration_ended(self, number: int) -> None:
        """Iteration `number` is over: measure what is due."""
        with suppress(Exception):
            self._iteration = number
            self._at_iteration_end.run_due()
        self.phase_ends(ITERATION)

    def phase_ends(self, name: str) -> None:
        """Before a phase is measured for the last time: what is given back here is its own."""
        with suppress(Exception):
            for remedy in AT_ENDS:
                remedy(name)

    def _probe_if_due(self) -> None:
        if self._probes.is_due():
            self._send(probe(self._meter, is_live=True, generation=self._iteration))

    def _send_allocators(self) -> None:
        heap, python = malloc.malloc_statistics(), pymalloc.pymalloc_statistics()
        self._send(
            AllocatorsEvent(
                t=self._clock(), pid=os.getpid(), generation=self._iteration,
                malloc_in_use_bytes=heap.in_use_bytes + heap.mmapped_bytes if heap else None,
                malloc_free_bytes=heap.free_bytes if heap else None,
                python_in_use_bytes=python.used_bytes if python else None,
            )
        )  # fmt: skip

    def _snapshot_after_iteration(self) -> None:
        trains = self._loop.trains
        if self.snapshots.is_due(in_loop=True, trains=trains) and self.snapshots.is_allowed():
            counts_objects = self.snapshots.may_count_objects()
            self.snapshots.take(generation=self._iteration, phase="", count_objects=counts_objects)

    # ---- what others ask for ----------------------------------------------------------------

    def recent_statement(self, oldest_seconds: float) -> Statement | None:
        """That of the last snapshot; of a new one where that is older, if the budget allows it.

        None before the first snapshot that the budget allows.
        """
        if self.snapshots.is_older_than(oldest_seconds) and self.snapshots.is_allowed():
            self.take_snapshot()
        return self.snapshots.latest

    def take_snapshot(self, label: str = "") -> None:
        """A snapshot now, whatever it costs."""
        phase, generation = PHASES.now
        self.snapshots.take(generation=generation, phase=phase, label=label)

    def statement_by_names(self, roots: Collection[Root]) -> Statement:
        """A cheap statement, before the first snapshot; it is recorded, too."""
        phase, generation = PHASES.now
        event, statement = take_names_snapshot(roots, generation=generation, phase=phase)
        self._send(event)
        return statement

    def snapshot_if_asked(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """The program is about to be stopped from outside: a snapshot while it still trains."""
        with suppress(Exception):
            self.take_snapshot("asked")
            self.link.flush()
        return {}

    def under_pressure(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """The limit is near: a last snapshot first, then the training's own callbacks."""
        with suppress(Exception):
            self.take_snapshot("pressure")
            self.link.flush()
        callbacks = run_callbacks(_CALLBACK_SECONDS)
        ran = (
            f"{callbacks} on_pressure callbacks ran" if callbacks else "no on_pressure callback ran"
        )
        self._note(f"the memory limit is near: {ran}")
        self.link.flush()
        return {"callbacks": callbacks}

    # ---- the end ----------------------------------------------------------------------------

    def at_exit(self) -> None:
        """The last snapshot: nothing can be disturbed any more, so the probe runs, too."""
        with suppress(Exception):
            now, ended_at = self._clock(), None if self._is_worker else self._loop.ended_at()
            since = 0.0 if ended_at is None else round(max(0.0, now - ended_at), 3)
            self._loop.tell_last_pass()
            PHASES.finish()
            self._send(ProgramEndEvent(t=now, pid=os.getpid(), since_training_seconds=since))
            self._iteration = PHASES.now[1] or 0
            self._send_allocators()
            if not self._is_worker:
                self._loop.finish()
                if self.settings.last_snapshot:
                    self.snapshots.take(
                        generation=PHASES.now[1], phase=END, count_objects=True, label=END
                    )
                    self._send(probe(self._meter))
            self.link.flush(seconds=_LAST_SEND_SECONDS)


def _now(_: Mapping[str, Any]) -> dict[str, Any]:
    phase, generation = PHASES.now
    return {"phase": phase, "generation": generation}


def _wrap(module: Any) -> None:
    wrap_framework(module, PHASES)


def _is_worker() -> bool:
    """Whether this is a process of multiprocessing: it is looked into only when it grows.

    A snapshot touches reference counts, and so copies pages that a forked worker shares with its
    parent: about an eighth of those with Python's objects, once.
    """
    if _was_forked:
        return True
    return any(argument.startswith("--multiprocessing-fork") for argument in sys.argv) or (
        "from multiprocessing." in " ".join(getattr(sys, "orig_argv", []))
    )


def _in_forked_child() -> None:
    """The socket and the queue are the parent's: a forked worker has its own."""
    global _was_forked
    _was_forked = True
    PHASES.sink = PHASES.on_generation = PHASES.before_end = None
    if OBSERVER is not None:
        with suppress(Exception):
            OBSERVER.continue_in_fork()
            start_agent()


os.register_at_fork(after_in_child=_in_forked_child)

_was_forked = False
OBSERVER: Observer | None = None
_lock = ForkLock()


def start_observing(settings: ObserverSettings) -> Observer:
    """Observe this process for a recorder; once a process."""
    global OBSERVER
    with _lock:
        if OBSERVER is None:
            OBSERVER = Observer(settings)
            OBSERVER.start()
            between_questions(OBSERVER.tick)
            register_handler("pressure", OBSERVER.under_pressure)
            register_handler("snapshot", OBSERVER.snapshot_if_asked)
            register_handler("now", _now)
        return OBSERVER
