"""Watches processes that others started: who they are, and samples of them as events.

The events are those of a recording (docs/recording.md), with more for a live view: PSS by pid in
samples for which it was read, what is left until the limit that processes share, and the phase of a
process that has an agent.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from re import Pattern
from typing import Any

from ramledger.agent.server import socket_path
from ramledger.attach.enter import ask_inside
from ramledger.errors import MeasureError, ProcessGoneError, RamledgerError
from ramledger.events import (
    CurrentPhaseEvent,
    Event,
    HeadroomEvent,
    ProcessEndEvent,
    ProcessEvent,
)
from ramledger.measure import proc
from ramledger.recorder.tree_sampler import (
    TreeSample,
    TreeSampler,
    command_of,
    headroom,
    sample_event,
)
from ramledger.time_share import Governor

_MATCHING_SHARE = 0.01  # of the time at most, for reading all command lines again
_ROOM_SHARE = 0.003
_ASKING_SECONDS = 2.0  # between two questions to the agents
_ANSWER_SECONDS = 0.2
_CREDIT_SECONDS = 0.02


def require_watchable(pid: int) -> None:
    """Raise one of our errors unless this is a process with memory that this user can see."""
    facts = proc.process_facts(pid)
    if facts.kind in (proc.ProcessKind.KERNEL_THREAD, proc.ProcessKind.ZOMBIE):
        raise ProcessGoneError(
            f"process {pid} has no memory: it is a {facts.kind.replace('-', ' ')}", pid=pid
        )


def matching_pids(pattern: Pattern[str]) -> list[int]:
    """Processes whose command line matches; not this one, nor those that started it.

    Its own command line holds the pattern, and so do those of a shell or `sudo` before it.
    """
    own = _ancestors()
    found = []
    for pid in proc.process_ids():
        with suppress(MeasureError):
            command = command_of(pid)
            is_kernel_thread_or_zombie = command.startswith("[") and not proc.has_memory(pid)
            if pid not in own and pattern.search(command) and not is_kernel_thread_or_zombie:
                found.append(pid)
    return found


class Watcher:
    """Samples processes repeatedly; with a pattern, new ones that match are added."""

    def __init__(
        self, pids: Sequence[int], *, pattern: Pattern[str] | None = None, tree: bool = False
    ) -> None:
        self._pattern = pattern
        self._sampler = TreeSampler(pids[0], children=tree)
        for pid in pids[1:]:
            self._sampler.adopt(pid)
        self._known: dict[int, tuple[int, str]] = {}
        self._groups: dict[int, bytes] = {}
        self._last_pss: dict[int, int] = {}
        self._matching = Governor(_MATCHING_SHARE, credit=_CREDIT_SECONDS)
        self._room = Governor(_ROOM_SHARE, credit=_CREDIT_SECONDS)
        self._asked_at = -_ASKING_SECONDS

    def sample(self, t: float, *, read_pss: bool = False) -> list[Event]:
        """What has changed, then a sample; with `read_pss` PSS is in it, whatever it costs."""
        if self._pattern is not None and self._matching.allows():
            began = time.perf_counter()
            for pid in matching_pids(self._pattern):
                self._sampler.adopt(pid)
            self._matching.spend(time.perf_counter() - began)
        sample = self._sampler.sample()
        if read_pss and sample.tree_pss_bytes is None:
            sample = replace(sample, tree_pss_bytes=self._sampler.read_pss(sample.processes))
        event = sample_event(sample, t, most_processes=len(sample.processes))
        if self._sampler.pss_bytes is not self._last_pss:
            self._last_pss = self._sampler.pss_bytes
            event = replace(event, pss_bytes=dict(self._last_pss))
        return [
            *self._changes(sample, t), *self._headrooms(sample, t), *self._phases(sample, t), event
        ]  # fmt: skip

    def close(self) -> None:
        """Let go of all processes."""
        self._sampler.close()

    def _changes(self, sample: TreeSample, t: float) -> Iterable[Event]:
        now = {p.pid: (p.parent_pid, p.command) for p in sample.processes}
        for pid in [pid for pid in self._known if pid not in now]:
            del self._known[pid]
            self._groups.pop(pid, None)
            yield ProcessEndEvent(t=t, pid=pid)
        for pid, who in now.items():
            if self._known.get(pid) != who:
                self._known[pid] = who
                yield ProcessEvent(t=t, pid=pid, parent_pid=who[0], command=who[1])

    def _headrooms(self, sample: TreeSample, t: float) -> Iterable[Event]:
        """One question for all processes of a control group: they share its limit."""
        if not self._room.allows():
            return
        began = time.perf_counter()
        groups: dict[bytes, list[int]] = {}
        for process in sample.processes:
            groups.setdefault(self._group_of(process.pid), []).append(process.pid)
        for pids in groups.values():
            with suppress(MeasureError):
                room = headroom(pids[0])
                if room is not None:
                    yield HeadroomEvent(t=t, pids=tuple(pids), bytes=room.bytes, limit=room.limit)
        self._room.spend(time.perf_counter() - began)

    def _phases(self, sample: TreeSample, t: float) -> Iterable[Event]:
        """What agents answer that their program does; a busy one is asked again later."""
        if t - self._asked_at < _ASKING_SECONDS:
            return
        self._asked_at = t
        for process in sample.processes:
            if os.path.exists(socket_path(process.pid)):
                with suppress(RamledgerError, OSError):
                    answer = ask_inside(
                        process.pid,
                        {"verb": "now"},
                        method="agent",
                        timeout_seconds=_ANSWER_SECONDS,
                    )
                    yield _current_phase(answer, t, process.pid)

    def _group_of(self, pid: int) -> bytes:
        if pid not in self._groups:
            try:
                self._groups[pid] = proc.read_bytes(pid, "cgroup")
            except MeasureError:
                return b""
        return self._groups[pid]


def _current_phase(answer: Mapping[str, Any], t: float, pid: int) -> CurrentPhaseEvent:
    phase, generation = answer.get("phase"), answer.get("generation")
    return CurrentPhaseEvent(
        t=t,
        pid=pid,
        generation=generation if isinstance(generation, int) else None,
        phase=phase if isinstance(phase, str) else "",
    )


def _ancestors() -> set[int]:
    pid, found = os.getpid(), set[int]()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            pid = proc.read_stat(pid).parent_pid
        except MeasureError:
            break
    return found
