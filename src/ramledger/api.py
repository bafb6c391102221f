"""`ledger = ramledger.record()`: snapshots, claims and growth, from inside the training."""

import atexit
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from ramledger.agent import observer
from ramledger.agent.observer_settings import ObserverSettings
from ramledger.agent.pressure_callbacks import Callback, on_pressure
from ramledger.agent.start import serve_statements
from ramledger.errors import ConfigError
from ramledger.events import Header, PlanEvent, RemoteProcessEvent
from ramledger.fork_lock import ForkLock
from ramledger.hooks.import_costs import start_tracking
from ramledger.ledger import Limit, Statement, StatementDiff, printable
from ramledger.measure import limits
from ramledger.objects.claims import CLAIMS
from ramledger.phases.phase_log import PHASES, Phase
from ramledger.recorder.limit_guard import LimitGuard
from ramledger.recorder.run_recorder import YOUNG_SECONDS, RunRecorder
from ramledger.recording import RecordingWriter
from ramledger.remedies.reporting import send_unsent
from ramledger.statement.own import LARGE_OBJECT_BYTES, own_statement
from ramledger.time_share import CREDIT_SECONDS
from ramledger.units import format_bytes, format_delta, parse_bytes

if TYPE_CHECKING:
    from ramledger.recorder.notebook_line import NotebookLine

MAX_SNAPSHOTS = 1000


class Plan(Protocol):
    """A `Budget`: what `ramledger.plan(...)` returns."""

    def to_dict(self) -> dict[str, Any]: ...


class Ledger:
    """The ledger of this process. Statements are kept by label; nothing else is kept alive."""

    def __init__(self, *, large_object: str | int = LARGE_OBJECT_BYTES) -> None:
        self._claims = CLAIMS
        self._snapshots: dict[str, Statement] = {}
        self._large_bytes = parse_bytes(large_object)
        self._lock = ForkLock()
        self.expectations: dict[str, int] = {}

    def claim(self, account: str, *objects: Any) -> None:
        """Assign everything that `objects` hold to `account`, for as long as they live."""
        self._claims.add(account, *objects)

    def release(self, account: str) -> None:
        """Forget a claim."""
        self._claims.release(account)

    def snapshot(self, label: str = "", *, objects: bool = True) -> Statement:
        """Where the RAM is now. `objects=False` is quicker and finds owners by name only."""
        statement = own_statement(
            label=label, objects=objects, large_object_bytes=self._large_bytes
        )
        if label:
            with self._lock:
                if len(self._snapshots) >= MAX_SNAPSHOTS and label not in self._snapshots:
                    self._snapshots.pop(next(iter(self._snapshots)))
                self._snapshots[label] = statement
        return statement

    def phase(self, name: str, generation: int | None = None) -> Phase:
        """`with ledger.phase("evaluate", generation=3):`, or a decorator."""
        return PHASES.phase(name, generation)

    def generation(self, number: int, of: int | None = None) -> None:
        """Iteration `number` begins here; `of` is how many there will be, for forecasts."""
        PHASES.generation(number, of)

    def expect(self, kind: type | str, count: int) -> None:
        """Expect exactly `count` live instances; under `ramledger run` a violation is recorded."""
        name = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
        if not name or isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ConfigError(
                f"cannot expect {count!r} of {kind!r}", hint="ledger.expect(TradingEnvironment, 2)"
            )
        self.expectations[name] = count
        if observer.OBSERVER is not None:
            observer.OBSERVER.snapshots.expected.counts[name] = count

    def on_pressure(self, callback: Callback) -> Callback:
        """Call `callback()` in the main thread when memory runs out; usable as a decorator."""
        return on_pressure(callback)

    def elsewhere(self, name: str, statement: Mapping[str, Any]) -> None:
        """Record what a process on another machine holds, such as `snapshot().to_dict()` there."""
        if observer.OBSERVER is not None:
            observer.OBSERVER.link.put(_remote_process(name, statement))

    def growth(self, since: str) -> StatementDiff:
        """What grew since the snapshot with that label."""
        before = self._snapshots.get(since)
        if before is None:
            known = ", ".join(repr(label) for label in list(self._snapshots)[-5:]) or "none"
            raise ConfigError(f"no snapshot is labeled {since!r}", hint=f"labels so far: {known}")
        return before.diff(self.snapshot())

    def trend(self) -> str:
        """RSS at every labeled snapshot and its change, as a table."""
        rows = list(self._snapshots.items())
        if not rows:
            return "no labeled snapshots yet"
        width = max(len(label) for label, _ in rows)
        lines = [f"{'snapshot':<{width}}  {'RSS':>11}  {'change':>11}"]
        previous: Statement | None = None
        for label, statement in rows:
            change = format_delta(statement.rss_bytes - previous.rss_bytes) if previous else ""
            size = format_bytes(statement.rss_bytes)
            lines.append(f"{label:<{width}}  {size:>11}  {change:>11}".rstrip())
            previous = statement
        return "\n".join(lines)


def apply(*remedies: str, say: Callable[[str], None] | None = None) -> None:
    """Put remedies in force from here on: `ramledger.apply("replay", "rollout")`, or "auto".

    Best at the top of the script. Objects that exist already stay as they are: `say` gets a
    sentence for each, by default on standard error. A second call changes nothing.
    """
    # not at the top: few programs ask for them
    from ramledger.remedies.catalog import parse_apply
    from ramledger.remedies.start import put_in_force

    asked = parse_apply(",".join(remedies))
    start_tracking()
    for sentence in put_in_force(asked):
        (say or _say)(sentence)


def _say(sentence: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        print(f"ramledger: {printable(sentence)}", file=sys.stderr)


_put_in_force = apply  # beside parameters of that name


def record(
    out: str | None = None,
    *,
    large_object: str | int = LARGE_OBJECT_BYTES,
    every_seconds: float = 0.5,
    budget: float = 0.01,
    force: bool = False,
    plan: Plan | Mapping[str, Any] | None = None,
    apply: str = "",
    live: bool = True,
) -> Ledger:
    """Open the ledger of this process; call it before heavy imports to see what they cost.

    Under `ramledger run` it joins that recording. Otherwise, with `out`, this process records
    itself and its children into that file. `plan`, a Budget, is recorded and graded at the end.
    `apply` as in `ramledger.apply`.
    In a notebook a line below the cell follows the recording, unless `live` is False.
    """
    start_tracking()
    if apply:
        _put_in_force(apply)
    if out is not None and observer.OBSERVER is None:
        record_ourselves(
            out, every_seconds=every_seconds, budget=budget, force=force, show_line=live
        )
    if plan is not None:
        _hand_over(plan if isinstance(plan, Mapping) else plan.to_dict())
    return Ledger(large_object=large_object)


def _hand_over(plan: Mapping[str, Any]) -> None:
    if observer.OBSERVER is None:
        raise ConfigError(
            "a plan is graded in a recording, and nothing is recorded here",
            hint="record(out='run.ledger.jsonl', plan=…), or start it with `ramledger run`",
        )
    # not at the top: few programs record a plan
    from ramledger.event_codec import MalformedEventError, decode_plan

    try:
        part = decode_plan(dict(plan))
    except MalformedEventError as error:
        raise ConfigError(
            f"not a plan: {error}", hint="give what ramledger.plan(…) returns, or its to_dict()"
        ) from error
    event = PlanEvent(t=time.monotonic(), pid=os.getpid(), plan=part)
    observer.OBSERVER.link.put(event)


def _remote_process(name: str, statement: Mapping[str, Any]) -> RemoteProcessEvent:
    """Of a statement's document as far as it is sound: it comes from another machine."""

    def size(field: str) -> int | None:
        value = statement.get(field)
        return value if type(value) is int and value >= 0 else None

    limit = statement.get("limit")
    limit = limit if isinstance(limit, Mapping) and type(limit.get("bytes")) is int else None
    return RemoteProcessEvent(
        t=time.monotonic(),
        name=str(name),
        node=str(statement.get("node") or ""),
        pid=size("pid") or 0,
        rss_bytes=size("rss_bytes"),
        pss_bytes=size("pss_bytes"),
        uss_bytes=size("uss_bytes"),
        limit=Limit(limit["bytes"], str(limit.get("source") or "")) if limit else None,
    )


def record_ourselves(
    out: str,
    *,
    every_seconds: float,
    budget: float,
    force: bool,
    credit: float = CREDIT_SECONDS,
    young_seconds: float = YOUNG_SECONDS,
    share: float = 1.0,
    last_snapshot: bool = True,
    guard: LimitGuard | None = None,
    show_line: bool = False,
) -> RecordingWriter:
    """Record this process and its children into a file; sampled more often while it is young.

    `share`: of the usual cost, of all but snapshots, which have a budget and a credit.
    `show_line`: in a notebook, show how it goes.
    """
    writer = RecordingWriter(
        out, Header(command=tuple(map(str, sys.argv)), started_at=time.time()), force=force
    )
    line = _notebook_line(out) if show_line else None
    recorder = RunRecorder(
        writer,
        every_seconds=every_seconds,
        young_seconds=young_seconds,
        share=share,
        guard=guard,
        sample_listener=None if line is None else line.show,
    )
    # at exit the last registered runs first: the agent's last events, then the end
    atexit.register(recorder.finish, None, None)
    observer.start_observing(
        ObserverSettings(
            recorder=recorder.socket_path,
            budget=budget,
            credit=credit,
            stack_share=share,
            last_snapshot=last_snapshot,
        )
    )
    serve_statements()
    send_unsent()
    recorder.start(os.getpid())
    return writer


def _notebook_line(path: str) -> "NotebookLine | None":
    if "IPython" not in sys.modules:
        return None
    from ramledger.recorder.notebook_line import notebook_line

    return notebook_line(path, limits.tightest(os.getpid()), lambda: PHASES.now[1])
