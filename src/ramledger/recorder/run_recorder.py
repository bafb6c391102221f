"""The recorder of a run: samples the process tree from outside, collects what agents send, writes.

It lives in the process of `ramledger run`, so a training that is stuck or killed still gets its
last statement, and a recorder that is killed leaves the training alone.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ramledger.agent.launch_environment import environment_with_agent
from ramledger.agent.owned_socket import OwnedSocket
from ramledger.agent.server import in_own_directory
from ramledger.descriptors import OwnedDescriptor, StandardStreams, WakeDescriptor, ready_among
from ramledger.errors import MeasureError
from ramledger.event_encoding import kind_of
from ramledger.events import (
    CurrentPhaseEvent,
    Event,
    ExpectationEvent,
    NoteEvent,
    PlanEvent,
    PressureEvent,
    ProcessEndEvent,
    ProcessEvent,
    ReleaseProbeEvent,
    RemedyEvent,
    RunEndEvent,
    SuggestionEvent,
)
from ramledger.recorder.limit_guard import LimitGuard
from ramledger.recorder.outside_snapshots import OutsideSnapshots
from ramledger.recorder.thinning import Thinning
from ramledger.recorder.tree_sampler import (
    SampledProcess,
    TreeSample,
    TreeSampler,
    sample_event,
    shared_anon_bytes,
)
from ramledger.recording import RecordingWriter

Listener = Callable[[Event], None]
SampleListener = Callable[[TreeSample, float], None]

_MAX_BUFFER_BYTES = 4 << 20
_VITAL = frozenset(
    event.kind
    for event in (
        ProcessEvent, ProcessEndEvent, PlanEvent, ExpectationEvent, PressureEvent, NoteEvent,
        ReleaseProbeEvent, RunEndEvent, SuggestionEvent, RemedyEvent,
    )
)  # fmt: skip

_FAST_SECONDS = 0.1  # near the limit, and while the run is young
_FRUGAL_SECONDS = 0.2  # the same where all is to cost less
YOUNG_SECONDS = 10.0
_UNSETTLED_SECONDS = 0.05


class RunRecorder:
    """Call `start` when the root process is known, `finish` when it has ended."""

    def __init__(
        self,
        writer: RecordingWriter,
        *,
        every_seconds: float = 0.5,
        young_seconds: float = YOUNG_SECONDS,
        share: float = 1.0,
        guard: LimitGuard | None = None,
        listener: Listener | None = None,
        sample_listener: SampleListener | None = None,
    ) -> None:
        self._writer = writer
        self._every, self._young_seconds = every_seconds, young_seconds
        self._guard = guard
        self._listener, self._sample_listener = listener, sample_listener
        self._born = time.monotonic()
        self.socket_path = ""
        self._pid = os.getpid()
        try:
            self._server = in_own_directory(self._listen_in)
        except OSError as error:
            raise MeasureError(
                f"cannot listen for the processes of the run: {error.strerror or error}",
                hint="set XDG_RUNTIME_DIR to a folder of yours that can be written to",
            ) from None
        self._wake = WakeDescriptor.make()
        self._streams = StandardStreams()
        self._buffers: dict[OwnedSocket, bytearray] = {}
        self._sampler: TreeSampler | None = None
        self._share = share
        self._thinning = Thinning(min(every_seconds, _FAST_SECONDS))
        self._outside_snapshots = OutsideSnapshots()
        self._known: dict[int, str] = {}
        self._inherited: dict[int, int] = {}  # by pid: pages that a fork shares with its parent
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.peak_bytes = 0
        self.cost_seconds = 0.0

    def environment(self, environment: Mapping[str, str], **settings: Any) -> dict[str, str]:
        """Variables with which Python processes report here; see ObserverSettings."""
        return environment_with_agent(environment, {**settings, "recorder": self.socket_path})

    def start(self, root_pid: int) -> None:
        """Record from now on."""
        self._sampler = TreeSampler(root_pid, share=self._share)
        self._thread = threading.Thread(target=self._run, name="ramledger-recorder", daemon=True)
        self._thread.start()

    def now(self) -> float:
        """Seconds since the recording began."""
        return round(time.monotonic() - self._born, 3)

    def emit(self, event: Event) -> None:
        """Write an event of our own; its `t` counts from the beginning of the recording."""
        self._writer.write(event, vital=event.kind in _VITAL)
        self._show(event)

    def note(self, text: str) -> None:
        """Write a line for the reader, at this instant."""
        self.emit(NoteEvent(t=self.now(), text=text))

    def finish(
        self, exit_code: int | None, signal: int | None, *, killed_by_kernel: bool = False
    ) -> None:
        """The root process has ended: last events of agents, the end event, everything closed."""
        if os.getpid() != self._pid:  # a forked child ends through its parent's exit handlers
            return
        self._stopping.set()
        with suppress(OSError):  # where the program closed it, a sample comes soon
            self._wake.ring()
        if self._thread is not None:
            self._thread.join(timeout=30)
        self._drain()
        self.emit(
            RunEndEvent(
                t=self.now(), exit_code=exit_code, signal=signal, peak_bytes=self.peak_bytes,
                killed_by_kernel=killed_by_kernel, cost_seconds=round(self.cost_seconds, 3),
                dropped_events=self._writer.dropped_events,
            )
        )  # fmt: skip
        self._writer.sync()
        self._writer.close()
        self._close()

    # ---- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            self._receive(max(0.0, due - time.monotonic()))
            if not self._streams.are_settled():
                time.sleep(_UNSETTLED_SECONDS)
                continue
            self._renew()
            if time.monotonic() >= due and not self._stopping.is_set():
                started = time.thread_time()
                near_limit = self._sample()
                self.cost_seconds += time.thread_time() - started
                now = time.monotonic()
                is_young = now - self._born < self._young_seconds
                soon = _FAST_SECONDS if near_limit or self._share >= 1.0 else _FRUGAL_SECONDS
                due = now + (min(soon, self._every) if near_limit or is_young else self._every)

    def _sample(self) -> bool:
        """One sample; True when the limit is near and the next should come soon."""
        assert self._sampler is not None
        sample = self._sampler.sample()
        if not sample.processes:
            return False
        t = self.now()
        self._announce(sample, t)
        self.peak_bytes = max(self.peak_bytes, sample.used_bytes)
        near = False
        if self._guard is not None:
            pressure, near = self._guard.check(sample, t)
            if pressure is not None:
                self.emit(pressure)
        outside = self._outside_snapshots.take_if_due(sample.processes, t)
        if outside is not None:
            self.emit(outside)
        event = sample_event(sample, t, inherited_bytes=self._inherited)
        is_wanted = near or sample.tree_pss_bytes is not None
        if self._thinning.keeps(t, sample.resident_bytes) or is_wanted:
            low, high = self._thinning.take_extremes()
            self.emit(replace(event, low_bytes=low, high_bytes=high))
        else:
            self._show(event)
        if self._sample_listener is not None:
            self._sample_listener(sample, t)
        return near

    def _announce(self, sample: TreeSample, t: float) -> None:
        by_pid = {process.pid: process for process in sample.processes}
        for process in sample.processes:
            # what was taken for a fork may have become another program since
            is_other = process.command != self._known.get(process.pid)
            if process.pid not in self._known or (is_other and self._inherited[process.pid]):
                self._known[process.pid] = process.command
                self._inherited[process.pid] = _inherited(process, by_pid)
                self.emit(
                    ProcessEvent(
                        t=t, pid=process.pid, parent_pid=process.parent_pid,
                        command=process.command, inherited_bytes=self._inherited[process.pid],
                    )
                )  # fmt: skip
        for pid in [pid for pid in self._known if pid not in by_pid]:
            del self._known[pid], self._inherited[pid]
            self.emit(ProcessEndEvent(t=t, pid=pid))

    # ---- agents -----------------------------------------------------------------------------

    def _receive(self, seconds: float) -> None:
        self._take_from(ready_among((self._server, self._wake, *self._buffers), seconds * 1000))

    def _take_from(self, ready: Iterable[OwnedDescriptor]) -> None:
        for one in ready:
            if one is self._server:
                self._accept()
            elif isinstance(one, OwnedSocket):
                self._read(one)
            elif isinstance(one, WakeDescriptor):
                with suppress(OSError):
                    one.clear()

    def _accept(self) -> None:
        with suppress(OSError):
            client = self._server.accept()
            if client is None:
                return
            if client.peer_user() not in (os.geteuid(), 0):
                client.close()
                return
            self._buffers[client] = bytearray()

    def _listen_in(self, folder: str) -> OwnedSocket:
        self.socket_path = os.path.join(folder, f"{os.getpid()}-{id(self):x}.sock")
        return self._listen()

    def _listen(self) -> OwnedSocket:
        server = OwnedSocket.create()
        try:
            server.bind(self.socket_path)
            server.listen(64)
        except OSError:
            server.close()
            raise
        return server

    def _renew(self) -> None:
        """Open again what the program that is recorded from inside has closed."""
        for client in [one for one in self._buffers if not one.is_ours]:
            self._let_go(client)
        with suppress(OSError):
            if not self._wake.is_ours:
                self._wake.close()
                self._wake = WakeDescriptor.make()
            if not self._server.is_ours:
                self._server.close()
                with suppress(FileNotFoundError):
                    os.unlink(self.socket_path)
                self._server = self._listen()

    def _let_go(self, client: OwnedSocket) -> None:
        client.close()
        del self._buffers[client]

    def _read(self, client: OwnedSocket) -> None:
        try:
            data = client.receive(1 << 18, 0.0)
        except TimeoutError:
            return
        except OSError:
            data = b""
        buffer = self._buffers[client]
        buffer += data
        *lines, rest = bytes(buffer).split(b"\n")
        self._buffers[client] = bytearray(rest)
        for line in lines:
            self._take(line)
        if not data or len(rest) > _MAX_BUFFER_BYTES:
            self._let_go(client)

    def _take(self, line: bytes) -> None:
        """Record what an agent has encoded as it is; only its clock becomes the recording's."""
        try:
            data = json.loads(line)
            kind = kind_of(data)
            data["t"] = round(data["t"] - self._born, 3)
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            return
        if not kind:
            return
        pid = data.get("pid")
        if kind == ProcessEvent.kind and isinstance(pid, int) and self._sampler is not None:
            self._sampler.adopt(pid)
            self._outside_snapshots.has_agent(pid)
        if kind != CurrentPhaseEvent.kind:  # only of interest while it is true
            self._writer.write_encoded(data, vital=kind in _VITAL)
        if self._listener is not None:
            self._show(_decoded(data))

    def _show(self, event: Event | None) -> None:
        if self._listener is not None and event is not None:
            self._listener(event)

    def _drain(self) -> None:
        """What agents sent before they ended is still in the sockets."""
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            ready = ready_among((self._server, *self._buffers), 50)
            if not ready:
                return
            self._take_from(ready)

    def _close(self) -> None:
        for one in (*self._buffers, self._server, self._wake):
            one.close()
        if self._sampler is not None and not (self._thread and self._thread.is_alive()):
            self._sampler.close()
        with suppress(OSError):
            os.unlink(self.socket_path)


def _decoded(data: Mapping[str, Any]) -> Event | None:
    # not at the top: only a recorder with a listener needs the types, not one inside a training
    from ramledger.event_codec import MalformedEventError, decode

    try:
        return decode(data)
    except MalformedEventError:
        return None


def _inherited(process: SampledProcess, others: Mapping[int, SampledProcess]) -> int:
    """Anonymous pages that a fork has in common with its parent when it is first seen."""
    parent = others.get(process.parent_pid)
    if parent is None or parent.command != process.command:
        return 0
    return min(parent.anon_bytes, shared_anon_bytes(process))
