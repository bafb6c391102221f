"""What the agent does in a process under `ramledger run`: phases, deep snapshots, call stacks.

All of it is governed: the summed cost of looking stays below a share of the run's time. Nothing
here may raise into the program.
"""

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ramledger.agent.event_link import EventLink
from ramledger.agent.pressure_callbacks import on_pressure, run_callbacks
from ramledger.agent.release_probe import LiveProbes, probe
from ramledger.agent.server import between_questions, register_handler, start_agent
from ramledger.agent.snapshot_event import deep_look, look_by_name
from ramledger.agent.snapshot_schedule import LookSchedule, first_look_seconds
from ramledger.fork_lock import ForkLock
from ramledger.hooks import keras_calls, sb3_rescue, tf_graph_costs
from ramledger.hooks.import_costs import is_importing, on_import
from ramledger.interpreter.cpu_allowance import Allowance
from ramledger.ledger import Statement
from ramledger.measure.allocators import malloc, pymalloc
from ramledger.measure.children_and_shm import ChildrenAndShmMeter
from ramledger.measure.own_memory import Meter
from ramledger.objects.class_growth import CountHistory
from ramledger.objects.walk_roots import Root
from ramledger.phases.loop_callees import InferredPhases
from ramledger.phases.loop_finder import LoopFinder, main_thread_id, user_frames
from ramledger.phases.phase_log import FRAMEWORK, INFERRED, PHASES
from ramledger.phases.wrapped_functions import FRAMEWORK_METHODS, NamedPhases, wrap_framework
from ramledger.statement.own import why_failed
from ramledger.time_share import CREDIT_SECONDS, Governor

# looks at the call stack take at most this share of the time: (until this age, share)
_TICK_SHARES = ((3.0, 0.02), (float("inf"), 0.004))
_SHORTEST_REST, _LONGEST_REST = 0.01, 0.25
_TURN_SECONDS = 0.1  # passes of a loop that is faster count together
LOOK_GROWTH = 1.2  # a look is also due when RSS has grown so far since the last ...
_LOOK_REST_SECONDS = 2.0  # ... and that was not just now
_SETTLED_SECONDS = 5.0  # growth before that is no reason: buffers, first updates
_BOOKS_REST = 300  # the allocators' books: rests of this many times their cost
_FUNCTIONS_SECONDS = (1.0, 30.0)  # growth by function: at first this often, later this rarely
_CALLBACK_SECONDS = 50.0
_LABELED_WAIT_SECONDS = 5.0
_MOST_SHARE = 2.0  # the cost of looks may be twice the budget, as a share of CPU time
# a snapshot that is taken may cost so much, however little is left of the budget
_LEAST_SECONDS, _LEAST_SECONDS_AT_END = 0.2, 2.0
_CENSUS_EVERY = 8  # deep snapshots with a full census, one in this many
_CENSUS_COST = 6  # ... at about this many times the cost


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What `ramledger run` tells its processes through the environment."""

    recorder: str
    phases: tuple[str, ...] = ()
    expectations: Mapping[str, int] = field(default_factory=dict)
    budget: float = 0.01
    credit: float = CREDIT_SECONDS  # beside the budget, while memory does not grow
    stack_share: float = 1.0  # of the usual looks at the call stack
    look_growth: float = LOOK_GROWTH  # once settled
    last_look: bool = True  # at exit, with a census
    probe: bool = False  # collect and trim now and then, to see what that gives back
    rescue_folder: str = ""  # where models go that are saved under pressure
    root_pid: int = 0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "RunSettings":
        return cls(
            recorder=str(data.get("recorder", "")),
            phases=tuple(map(str, data.get("phases", ()))),
            expectations={str(k): int(v) for k, v in dict(data.get("expectations", {})).items()},
            budget=float(data.get("budget", 0.01)),
            probe=data.get("probe") is True,
            rescue_folder=str(data.get("rescue_folder", "")),
            root_pid=int(data.get("root_pid", 0)),
        )


class Watching:
    """One process of a run, seen by its agent."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings
        self.link = EventLink(settings.recorder)
        credit = settings.credit if settings.budget else 0.0
        self.governor = Governor(settings.budget, clock=_working_seconds, credit=credit)
        self.expectations: dict[str, int] = dict(settings.expectations)
        self._named = NamedPhases(settings.phases, PHASES)
        self._loops = LoopFinder()
        self._meter = Meter()
        self._inferred = InferredPhases(PHASES)
        self._probes = LiveProbes(settings.probe)
        self._outside = ChildrenAndShmMeter()
        self._snapshots = 0
        self._books_cost = self._books_at = 0.0
        self._look_cost = 0.0
        self._latest: Statement | None = None
        self._looking = threading.Lock()
        self._looked_bytes, self._looked_at = self._meter.rss_bytes(), float("inf")
        self._is_settled = False
        self._schedule = LookSchedule(time.monotonic())
        self._turns = 0
        self._born = self._functions_at = time.monotonic()
        self._sampled_at = time.monotonic()
        self._turned_at = time.monotonic()
        self._violated: dict[str, int] = {}
        self._reached: set[str] = set()  # expected counts that were there once
        self._told: tuple[str, int | None] = ("", None)
        self._history = CountHistory()
        self._is_worker = _is_worker()

    def start(self) -> None:
        """Announce this process and hook what can be hooked."""
        self._announce()
        self._hook_frameworks()
        atexit.register(self.at_exit)

    def go_on_in_fork(self) -> None:
        """In a forked child, with the parent's hooks in place: only the way to the recorder is new.

        Every object touched is a page of its own in each worker.
        """
        self.link = EventLink(self.settings.recorder)
        self._looking = threading.Lock()
        self._is_worker = True
        self._announce()

    def _announce(self) -> None:
        PHASES.sink = self.link.put
        PHASES.on_generation = self.generation_ended
        self.link.put(
            {
                "event": "process", "mono": time.monotonic(), "parent": os.getppid(),
                "agent": True, "python": sys.version.split()[0], "worker": self._is_worker,
            }
        )  # fmt: skip

    def _hook_frameworks(self) -> None:
        hooks: dict[str, list[Callable[[Any], None]]] = {
            name: [_wrap] for name in FRAMEWORK_METHODS
        }
        hooks[tf_graph_costs.MODULE] = [tf_graph_costs.measure_traces]
        hooks |= {name: [keras_calls.count_calls] for name in keras_calls.MODULES}
        if self.settings.rescue_folder:
            rescue = sb3_rescue.Rescue(self.settings.rescue_folder, self._say, on_pressure)
            hooks[sb3_rescue.MODULE].append(rescue.watch)
        for name, callbacks in hooks.items():
            on_import(name, _all_of(callbacks))

    def _say(self, text: str) -> None:
        self.link.put({"event": "note", "mono": time.monotonic(), "text": text})

    # ---- the agent's thread ---------------------------------------------------------------

    def tick(self) -> float:
        """One look at the call stack, and what is queued goes out; returns the rest to take."""
        started = time.thread_time()
        self._named.wrap_new()
        self._tell_phase()
        age = time.monotonic() - self._born
        if not self._is_settled and age >= _SETTLED_SECONDS:
            self._is_settled = True
            if not self._snapshots:
                self._looked_bytes = self._meter.rss_bytes()
        if not self._is_worker:
            self._look_at_stack()
        self.link.flush()
        if self._is_worker:
            return 1.0
        share = next(share for until, share in _TICK_SHARES if age < until)
        # deep looks taken meanwhile have a budget of their own
        cost = min(time.thread_time() - started, 0.001)
        share *= self.settings.stack_share
        longest = _LONGEST_REST / self.settings.stack_share
        return min(max(_SHORTEST_REST, cost / share), longest)

    def _tell_phase(self) -> None:
        """The live view shows what runs now; it is not recorded."""
        phase, generation = PHASES.now
        if (phase, generation) != self._told:
            self._told = (phase, generation)
            self.link.put({"event": "now", "generation": generation, "phase": phase})

    def _look_at_stack(self) -> None:
        now = time.monotonic()
        frames, outer = user_frames(main_thread_id())
        try:
            turned = self._loops.sample(frames, self._levels(), now - self._sampled_at)
            loop, call = self._loops.current(frames)
            is_around = self._loops.is_around(frames, outer)
            found = self._loops.frame_of_loop(frames)
            if found and PHASES.origin == INFERRED:
                self._inferred.wrap_callees(*found)
        finally:
            found = None
            frames.clear()
        self._sampled_at = now
        if now - self._functions_at >= functions_rest(now - self._born):
            self._send_functions(loop, call, now)
        # a loop of the user's around a framework's own iterations is the training loop
        if PHASES.origin not in ("", INFERRED) and not (PHASES.origin == FRAMEWORK and is_around):
            return
        if turned and now - self._turned_at >= _TURN_SECONDS:
            self._turned_at = now
            number = self._loops.number
            self._turns = self._turns + 1 if number is None else number
            PHASES.generation(self._turns, origin=INFERRED)
        elif self._is_look_due(now, False) and not is_importing() and self._may_look():
            # no generations yet, or very long ones: by time, ever more rarely
            self.look_deep(generation=PHASES.now[1], phase=call)

    def _levels(self) -> dict[str, int]:
        anon = self._meter.anon_bytes()
        return {
            "growth_bytes": anon,
            "children_growth_bytes": self._outside.children_bytes(anon),
            "shm_growth_bytes": self._outside.shm_bytes(),
        }

    def _send_functions(self, loop: str, call: str, now: float) -> None:
        sums = self._loops.take_sums()
        self._functions_at = now
        if sums.samples:
            self.link.put(
                {
                    "event": "functions", "mono": now, "samples": sums.samples,
                    **{k: dict(grown.most_common(20)) for k, grown in sums.growth_bytes.items()},
                    "seconds": {k: round(v, 2) for k, v in sums.seconds.items() if v >= 0.01},
                    "loop": {"function": loop, "calls": call} if loop else None,
                }
            )  # fmt: skip

    # ---- borders of generations -------------------------------------------------------------

    def generation_ended(self, number: int) -> None:
        """A generation is over: look deeper, if the budget allows."""
        with suppress(Exception):
            if self._probes.is_due():
                self.link.put({**probe(self._meter), "live": True, "generation": number})
            self._send_books(number)
            due = self._is_look_due(time.monotonic(), True)
            if due and not self._is_worker and self._may_look():
                self.look_deep(generation=number, phase="", census=self._may_take_census())

    def _is_look_due(self, now: float, in_loop: bool) -> bool:
        """A look is due by time, or by growth: a run that dies is best known by its last look."""
        if self._schedule.is_due(now, in_loop=in_loop, modules=len(sys.modules)):
            return True
        return self._has_grown() and now - self._looked_at >= _LOOK_REST_SECONDS

    def _has_grown(self) -> bool:
        growth = self.settings.look_growth if self._is_settled else LOOK_GROWTH
        return self._meter.rss_bytes() >= self._looked_bytes * growth

    def _may_look(self) -> bool:
        """Whether the budget allows a look; where memory grows, it has the whole credit."""
        expected = None if self._snapshots else first_look_seconds()
        if self.governor.allows(expected):
            return True
        extra = CREDIT_SECONDS - self.settings.credit if self.settings.budget else 0.0
        return extra > 0 and self._has_grown() and self.governor.allows(expected, extra=extra)

    @property
    def latest(self) -> Statement | None:
        """That of the last look, whoever took it."""
        return self._latest

    def recent_statement(self, oldest_seconds: float) -> Statement | None:
        """That of the last look; of a new one where that is older, and the budget allows it.

        None before the first look that the budget allows.
        """
        is_old = self._latest is None or time.monotonic() - self._looked_at >= oldest_seconds
        if is_old and self._may_look():
            phase, generation = PHASES.now
            self.look_deep(generation=generation, phase=phase)
        return self._latest

    def statement_by_names(self, roots: Collection[Root]) -> Statement:
        """A cheap one, before the first look; what it finds is recorded."""
        phase, generation = PHASES.now
        event, statement = look_by_name(roots)
        self.link.put({**event, "generation": generation, "phase": phase})
        return statement

    def _may_take_census(self) -> bool:
        """A census costs several looks: one in eight, and only where the budget has room."""
        due = self._snapshots % _CENSUS_EVERY == _CENSUS_EVERY - 1
        return due and self.governor.allows(self._look_cost * _CENSUS_COST)

    def look_deep(
        self, *, generation: int | None, phase: str, census: bool = False, label: str = ""
    ) -> None:
        """Take a deep snapshot now and check what was expected; one thread at a time."""
        # what is asked for with a name waits for a look in progress
        if not self._looking.acquire(timeout=_LABELED_WAIT_SECONDS if label else 0):
            return
        started = time.thread_time()
        try:
            self._look_deep(generation, phase, census, label)
        except Exception as error:  # a snapshot is not worth a training
            cost = time.thread_time() - started
            self.governor.spend(cost)
            self._schedule.took(time.monotonic(), cost)
            self.link.put(
                {
                    "event": "snapshot-failed", "mono": time.monotonic(),
                    "generation": generation, "phase": phase, "label": label,
                    "reason": why_failed(error),
                }
            )  # fmt: skip
        finally:
            self._looking.release()

    def _look_deep(self, generation: int | None, phase: str, census: bool, label: str) -> None:
        least = _LEAST_SECONDS_AT_END if label == "end" else _LEAST_SECONDS
        event, self._latest = deep_look(
            generation=generation,
            phase=phase,
            label=label,
            census=census,
            watched=tuple(self.expectations),
            history=self._history,
            allowance=Allowance(max(least, self.governor.left_seconds())),
        )
        self._snapshots += 1
        self._looked_bytes = self._meter.rss_bytes()
        self._looked_at = now = time.monotonic()
        self._schedule.took(now, event["cost_seconds"])
        if not census:
            self._look_cost = event["cost_seconds"]
        self.governor.spend(event["cost_seconds"], repeats=not census)
        PHASES.element_counts.follow(
            c["path"] for c in event["containers"] if c["capacity"] is None and c["length"]
        )
        self.link.put(event)
        self._check_expectations(event)

    def _send_books(self, number: int) -> None:
        now = time.monotonic()
        if now - self._books_at < self._books_cost * _BOOKS_REST:
            return
        self._books_at = now
        started = time.thread_time()
        heap, python = malloc.malloc_statistics(), pymalloc.pymalloc_statistics()
        self._books_cost = time.thread_time() - started
        self.link.put(
            {
                "event": "books", "mono": time.monotonic(), "generation": number,
                "malloc_in_use_bytes": heap.in_use_bytes + heap.mmapped_bytes if heap else None,
                "malloc_free_bytes": heap.free_bytes if heap else None,
                "python_used_bytes": python.used_bytes if python else None,
            }
        )  # fmt: skip

    def _check_expectations(self, event: Mapping[str, Any]) -> None:
        counts = event["counts"]
        for name, expected in self.expectations.items() if counts else ():
            found = sum(n for kind, n in counts.items() if kind.rpartition(".")[2] == name)
            if found >= expected:
                self._reached.add(name)
            elif name not in self._reached:
                continue  # they are still being made
            if found != expected and self._violated.get(name) != found:
                self._violated[name] = found
                self.link.put(
                    {
                        "event": "expectation", "mono": time.monotonic(), "type": name,
                        "expected": expected, "found": found, "phase": event["phase"],
                        "generation": event["generation"],
                        "paths": event["watched"].get(name, []),
                    }
                )  # fmt: skip

    def under_pressure(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """The limit is near: a last statement first, then the training's own callbacks."""
        phase, generation = PHASES.now
        with suppress(Exception):
            self.look_deep(generation=generation, phase=phase, label="pressure")
            self.link.flush()
        callbacks = run_callbacks(_CALLBACK_SECONDS)
        self._say(f"{callbacks} callbacks ran under memory pressure")
        self.link.flush()
        return {"callbacks": callbacks}

    # ---- the end ----------------------------------------------------------------------------

    def at_exit(self) -> None:
        """The last look: nothing can be disturbed any more, so the probes run, too."""
        with suppress(Exception):
            now = time.monotonic()
            self.link.put({"event": "exit", "mono": now})
            PHASES.finish()
            if not self._is_worker:
                self._send_functions(*self._loops.current([]), now)
                if self.settings.last_look:
                    self.look_deep(generation=PHASES.now[1], phase="end", census=True, label="end")
                    self.link.put({**probe(self._meter), "live": False})
            self.link.flush(seconds=5.0)


def _working_seconds() -> float:
    """Time by which looks are budgeted: on a crowded machine a second holds little of ours."""
    return min(time.monotonic() - _BORN, _MOST_SHARE * time.process_time())


def functions_rest(age_seconds: float) -> float:
    """Seconds between two events with growth by function."""
    often, rarely = _FUNCTIONS_SECONDS
    return min(max(often, 0.03 * age_seconds), rarely)


def _now(_: Mapping[str, Any]) -> dict[str, Any]:
    phase, generation = PHASES.now
    return {"phase": phase, "generation": generation}


def _all_of(callbacks: list[Callable[[Any], None]]) -> Callable[[Any], None]:
    def call(module: Any) -> None:
        for callback in callbacks:
            callback(module)

    return call


def _wrap(module: Any) -> None:
    wrap_framework(module, PHASES)


def _is_worker() -> bool:
    """Whether this is a process of multiprocessing: it is watched from outside only.

    A census touches the reference count of every object, and so copies every page that a forked
    worker still shares with its parent.
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
    PHASES.sink = PHASES.on_generation = None
    if WATCHING is not None:
        with suppress(Exception):
            WATCHING.go_on_in_fork()
            start_agent()


os.register_at_fork(after_in_child=_in_forked_child)

_BORN = time.monotonic()
_was_forked = False
WATCHING: Watching | None = None
_lock = ForkLock()


def start_watching(settings: RunSettings) -> Watching:
    """Watch this process for a recorder; once a process."""
    global WATCHING
    with _lock:
        if WATCHING is None:
            WATCHING = Watching(settings)
            WATCHING.start()
            between_questions(WATCHING.tick)
            register_handler("pressure", WATCHING.under_pressure)
            register_handler("now", _now)
        return WATCHING
