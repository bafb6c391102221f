"""`ramledger watch PID… | --match PATTERN`: processes that others started, side by side."""

import json as json_format
import re
import signal
import time
from collections.abc import Iterator
from typing import Annotated, NoReturn, Protocol

from cyclopts import Parameter, validators
from rich.console import Console
from rich.live import Live

from ramledger.cli.explain import PID_LIMIT, Flag
from ramledger.cli.main import EXIT_ERROR, EXIT_USAGE, print_error
from ramledger.errors import ConfigError, MeasureError, ProcessGoneError
from ramledger.events import Event
from ramledger.recorder.watcher import Watcher, matching_pids, require_watchable
from ramledger.report.terminal.watch_table import ended_line, one_line, watch_view
from ramledger.run.model import Run
from ramledger.run.watched import Targets, Watch

EXIT_BAD_ANSWER = 3
_RAY_WORKERS = r"^ray::(?!IDLE)"  # Ray gives its workers what they run as their title


class Sampler(Protocol):
    """Whoever samples processes: on this machine, or on all nodes of a cluster."""

    def sample(self, t: float, *, read_pss: bool = False) -> list[Event]: ...


def _check_pattern(_: object, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a pattern: {error}") from None


def _check_targets(_: object, text: str) -> None:
    try:
        Targets.parse(text)
    except ConfigError as error:
        raise ValueError(f"{error.message}: write it {error.hint}") from None


Pid = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=PID_LIMIT))]
Pattern = Annotated[str, Parameter(validator=_check_pattern, show_default=False)]
Seconds = Annotated[float, Parameter(validator=validators.Number(gte=0.1, lte=86400))]
RayAddress = Annotated[bool | str, Parameter(negative="", show_default=False)]
TargetList = Annotated[str, Parameter(validator=_check_targets, show_default=False)]


def watch(
    *pids: Pid,
    match: Pattern = "",
    ray: RayAddress = False,
    tree: Flag = False,
    every: Seconds = 2.0,
    once: Flag = False,
    json: Flag = False,
    target: TargetList = "",
) -> int:
    """Watch processes that you did not start under ramledger, side by side.

    Parameters
    ----------
    pids
        The processes to watch.
    match
        Watch all processes with a command line that matches this regular expression, new ones too.
    ray
        Watch the workers of Ray on this node, by what each runs, new ones too. With an address,
        `10.0.0.1:6379` or `auto`, those of every node of that cluster, and their object stores.
    tree
        Their child processes too.
    every
        Seconds between two samples.
    once
        Print one table and exit: 0, or 3 when a target is missed.
    json
        Print JSON: one document with --once, else one a sample, each on its own line.
    target
        What each process should hold at most, and all together: rss=15GiB,threads=30,total=25GiB.
    """
    if ray and match:
        print_error("--ray and --match exclude each other", hint="--match '^ray::Name'")
        return EXIT_USAGE
    if isinstance(ray, str) and pids:
        print_error("--ray ADDRESS and process ids exclude each other", hint="--ray auto")
        return EXIT_USAGE
    if isinstance(ray, str):
        return _watch_cluster(ray, Watch(Run(), Targets.parse(target)), every, once=once, json=json)
    match = _RAY_WORKERS if ray else match
    if not pids and not match:
        print_error("nothing to watch", hint="ramledger watch PID, or --match 'train.py'")
        return EXIT_USAGE
    found = [pid for pid in dict.fromkeys(pids) if _is_watchable(pid)]
    missing = len(set(pids)) - len(found)
    pattern = re.compile(match) if match else None
    if pattern is not None:
        found += [pid for pid in matching_pids(pattern) if pid not in found]
    if not found:
        if missing:
            return EXIT_ERROR
        if ray:
            raise ProcessGoneError(
                "no Ray worker is running here",
                hint="idle workers are not listed: is a job running?",
            )
        raise ProcessGoneError(
            f"no process matches {match!r}",
            hint="whole command lines are searched: see `ps -ef`",
        )
    watcher = Watcher(found, pattern=pattern, tree=tree)
    watched = Watch(Run(), Targets.parse(target))
    if once:
        code = _once(watcher, watched, json=json)
        return EXIT_ERROR if missing else code
    _show(_samples(watcher, watched, every), watched, json=json)
    return EXIT_ERROR if missing else 0


def _watch_cluster(address: str, watched: Watch, every: float, *, once: bool, json: bool) -> int:
    from ramledger.integrations.cluster.ray_watch import ClusterWatcher

    watcher = ClusterWatcher(address)
    if once:
        return _once(watcher, watched, json=json)
    _show(_samples(watcher, watched, every), watched, json=json)
    return 0


def _is_watchable(pid: int) -> bool:
    try:
        require_watchable(pid)
    except MeasureError as error:
        print_error(error.message, hint=error.hint)
        return False
    return True


def _once(watcher: Sampler, watched: Watch, *, json: bool) -> int:
    for event in watcher.sample(0.0, read_pss=True):
        watched.run.take(event)
    if not watched.rows:
        raise ProcessGoneError("no matching process is running")
    if json:
        print(json_format.dumps(watched.to_dict(time.time()), indent=2))
    else:
        _print_table(watched, Console(), height=2 * len(watched.rows) + 100)
    return EXIT_BAD_ANSWER if watched.missed() else 0


def _samples(watcher: Sampler, watched: Watch, every: float) -> Iterator[None]:
    """Bring the run up to date and hand over, at even times, until no process is left."""
    began = time.monotonic()
    while True:
        now = time.monotonic()
        for event in watcher.sample(now - began):
            watched.run.take(event)
        yield
        if not watched.rows:
            return
        # time lost by a stop or a slow sample is not made up for
        time.sleep(max(0.0, every - (time.monotonic() - now) % every))


def _show(samples: Iterator[None], watched: Watch, *, json: bool) -> None:
    console = Console()
    if json:
        for _ in samples:
            print(json_format.dumps(watched.to_dict(time.time())), flush=True)
    elif console.is_terminal and not console.is_dumb_terminal:
        _show_live(samples, watched, console)
    else:
        _show_lines(samples, watched)


def _show_live(samples: Iterator[None], watched: Watch, console: Console) -> None:
    previous = signal.signal(signal.SIGTERM, _end)
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            for _ in samples:
                view = watch_view(watched, *console.size, is_ascii=_is_ascii(console))
                live.update(view, refresh=True)
    finally:
        signal.signal(signal.SIGTERM, previous)
        _print_table(watched, console, console.height)


def _print_table(watched: Watch, console: Console, height: int) -> None:
    view = watch_view(watched, console.width, height, is_ascii=_is_ascii(console))
    console.print(view, soft_wrap=True)


def _is_ascii(console: Console) -> bool:
    return not console.encoding.lower().startswith("utf")


def _end(number: int, _: object) -> NoReturn:
    """SIGTERM, with the terminal put back in order on the way out."""
    raise SystemExit(128 + number)


def _show_lines(samples: Iterator[None], watched: Watch) -> None:
    shown = 0
    for _ in samples:
        clock = time.strftime("%H:%M:%S")
        for row in watched.ended_since(shown):
            print(f"{clock}  {ended_line(row)}", flush=True)
        shown = watched.run.processes.ended_count
        if watched.rows:
            print(f"{clock}  {one_line(watched)}", flush=True)
