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
from typing import Any

from ramledger.agent.owned_socket import OwnedSocket
from ramledger.agent.server import in_own_directory
from ramledger.descriptors import OwnedDescriptor, StandardStreams, ready_among
from ramledger.errors import MeasureError
from ramledger.recorder.limit_guard import PressureGuard
from ramledger.recorder.outside_snapshots import Outlines
from ramledger.recorder.thinning import Thinning
from ramledger.recorder.tree_sampler import LightProcess, TreeSample, TreeSampler, shared_anon_bytes
from ramledger.recording import RecordingWriter

Listener = Callable[[dict[str, Any]], None]

_MAX_BUFFER_BYTES = 4 << 20
_VITAL = frozenset(
    {"process", "process-end", "plan", "expectation", "pressure", "note", "probe", "end"}
)
_MAX_LISTED = 16
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
        guard: PressureGuard | None = None,
        listener: Listener = lambda event: None,
    ) -> None:
        self._writer = writer
        self._every, self._young_seconds = every_seconds, young_seconds
        self._guard = guard
        self._listener = listener
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
        self._wake = _wake()
        self._streams = StandardStreams()
        self._buffers: dict[OwnedSocket, bytearray] = {}
        self._sampler: TreeSampler | None = None
        self._share = share
        self._thinning = Thinning(min(every_seconds, _FAST_SECONDS))
        self._outlines = Outlines()
        self._known: dict[int, str] = {}
        self._inherited: dict[int, int] = {}  # by pid: pages that a fork shares with its parent
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.peak_bytes = 0
        self.cost_seconds = 0.0

    def start(self, root_pid: int) -> None:
        """Record from now on."""
        self._sampler = TreeSampler(root_pid, share=self._share)
        self._thread = threading.Thread(target=self._run, name="ramledger-recorder", daemon=True)
        self._thread.start()

    def emit(self, event: Mapping[str, Any]) -> None:
        """Write an event of our own, at this instant."""
        self._record({**event, "mono": time.monotonic()})

    def finish(self, exit_code: int | None, signal: int | None, **more: Any) -> None:
        """The root process has ended: last words of agents, the end event, everything closed."""
        if os.getpid() != self._pid:  # a forked child ends through its parent's exit handlers
            return
        self._stopping.set()
        with suppress(OSError):  # where the program closed it, a sample comes soon
            os.eventfd_write(self._wake.fileno(), 1)
        if self._thread is not None:
            self._thread.join(timeout=30)
        self._drain()
        self.emit(
            {
                "event": "end", "exit_code": exit_code, "signal": signal,
                "peak_bytes": self.peak_bytes, "cost_seconds": round(self.cost_seconds, 3),
                "dropped_events": self._writer.dropped_events, **more,
            }
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
        """One light sample; True when the limit is near and the next should come soon."""
        assert self._sampler is not None
        sample = self._sampler.sample()
        if not sample.processes:
            return False
        now = time.monotonic()
        self._announce(sample)
        self.peak_bytes = max(self.peak_bytes, sample.used_bytes)
        near = False
        if self._guard is not None:
            event, near = self._guard.look(sample, now)
            if event is not None:
                self._record({**event, "mono": now})
        outline = self._outlines.look(sample.processes, now)
        if outline is not None:
            self._record({**outline, "mono": now})
        event = _sample_event(sample, self._inherited)
        wanted = near or sample.tree_pss_bytes is not None
        if self._thinning.keeps(now - self._born, sample.resident_bytes) or wanted:
            low, high = self._thinning.take_extremes()
            self._record({**event, "low": low, "high": high, "mono": now})
        else:
            self._listener({**event, "t": now - self._born})
        return near

    def _announce(self, sample: TreeSample) -> None:
        by_pid = {process.pid: process for process in sample.processes}
        for process in sample.processes:
            # what was taken for a fork may have become another program since
            is_other = process.command != self._known.get(process.pid)
            if process.pid not in self._known or (is_other and self._inherited[process.pid]):
                self._known[process.pid] = process.command
                self._inherited[process.pid] = _inherited(process, by_pid)
                self.emit(
                    {
                        "event": "process", "pid": process.pid, "parent": process.parent_pid,
                        "command": process.command, "agent": False,
                        "inherited_bytes": self._inherited[process.pid],
                    }
                )  # fmt: skip
        for pid in [pid for pid in self._known if pid not in by_pid]:
            del self._known[pid], self._inherited[pid]
            self.emit({"event": "process-end", "pid": pid})

    # ---- agents -----------------------------------------------------------------------------

    def _receive(self, seconds: float) -> None:
        self._take_from(ready_among((self._server, self._wake, *self._buffers), seconds * 1000))

    def _take_from(self, ready: Iterable[OwnedDescriptor]) -> None:
        for one in ready:
            if one is self._server:
                self._accept()
            elif isinstance(one, OwnedSocket):
                self._read(one)
            else:
                with suppress(OSError):
                    os.eventfd_read(one.fileno())

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
                self._wake = _wake()
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
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            return
        pid = event.get("pid")
        if event["event"] == "process" and isinstance(pid, int) and self._sampler is not None:
            self._sampler.adopt(pid)
            self._outlines.has_agent(pid)
        self._record(event)

    def _drain(self) -> None:
        """What agents sent before they ended is still in the sockets."""
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            ready = ready_among((self._server, *self._buffers), 50)
            if not ready:
                return
            self._take_from(ready)

    # ---- writing ----------------------------------------------------------------------------

    def _record(self, event: dict[str, Any]) -> None:
        mono = event.pop("mono", None)
        now = mono if isinstance(mono, float) else time.monotonic()
        event["t"] = round(now - self._born, 3)
        if event["event"] != "now":  # only of interest while it is true
            self._writer.write(event, vital=event["event"] in _VITAL)
        self._listener(event)

    def _close(self) -> None:
        for one in (*self._buffers, self._server, self._wake):
            one.close()
        if self._sampler is not None and not (self._thread and self._thread.is_alive()):
            self._sampler.close()
        with suppress(OSError):
            os.unlink(self.socket_path)


def _wake() -> OwnedDescriptor:
    return OwnedDescriptor.made_by("eventfd", 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)


def _inherited(process: LightProcess, others: Mapping[int, LightProcess]) -> int:
    """Anonymous pages that a fork has in common with its parent when it is first seen."""
    parent = others.get(process.parent_pid)
    if parent is None or parent.command != process.command:
        return 0
    return min(parent.anon_bytes, shared_anon_bytes(process))


def _sample_event(sample: TreeSample, inherited: Mapping[int, int]) -> dict[str, Any]:
    by_size = sorted(sample.processes, key=lambda p: -(p.anon_bytes + p.file_bytes + p.shmem_bytes))
    rows = {
        str(p.pid): [p.anon_bytes, p.file_bytes, p.shmem_bytes, p.swap_bytes, p.threads]
        for p in by_size[:_MAX_LISTED]
    }
    event: dict[str, Any] = {
        "event": "sample", "processes": rows, "shm_bytes": sample.shm_bytes,
        "used_bytes": sample.used_bytes,
        "usage_bytes": sample.usage_bytes, "available_bytes": sample.available_bytes,
    }  # fmt: skip
    if by_size[_MAX_LISTED:]:
        event["others"] = [
            sum(getattr(p, name) for p in by_size[_MAX_LISTED:])
            for name in ("anon_bytes", "file_bytes", "shmem_bytes", "swap_bytes", "threads")
        ]
        event["others_inherited_bytes"] = sum(
            inherited.get(p.pid, 0) for p in by_size[_MAX_LISTED:]
        )
    if sample.tree_pss_bytes is not None:
        event["tree_pss_bytes"] = sample.tree_pss_bytes
    return event
