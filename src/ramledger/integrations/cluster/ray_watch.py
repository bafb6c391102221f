"""`ramledger watch --ray ADDRESS`: the workers of every node of a live cluster, as events.

Each node reads its own: one worker of Ray there answers a small question a sample. What is running
is not touched.
"""

import os
import socket
import sys
from typing import Any

from ramledger.errors import ConfigError, ProcessGoneError
from ramledger.event_parts import ProcessMemory
from ramledger.events import Event, HeadroomEvent, ProcessEndEvent, ProcessEvent, SampleEvent
from ramledger.integrations.cluster import ray_node
from ramledger.integrations.requirement import needs
from ramledger.ledger import Limit

with needs("ray", "2.40", extra="ray"):
    import ray
    from ray import cloudpickle
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from ramledger.integrations.cluster.ray_nodes import node_names, object_stores

_PIDS = 1 << 22  # Linux hands out smaller ones: those of the second node are moved up by as much
_PSS_SECONDS = 30.0
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 30.0  # a node may have to start a worker for the first question

_STORE = "object store"
_ROLES = {"EnvRunner": "env runner", "Aggregator": "aggregator", "Learner": "learner"}


class ClusterWatcher:
    """Samples a cluster repeatedly; its events are those of `recorder.watcher`."""

    def __init__(self, address: str) -> None:
        _connect(address)
        cloudpickle.register_pickle_by_value(ray_node)
        self._question = ray.remote(ray_node.read_node)
        self._numbers: dict[str, int] = {}
        self._known: dict[int, str] = {}
        self._pss_at = 0.0

    def sample(self, t: float, *, read_pss: bool = False) -> list[Event]:
        """What has changed, then a sample; PSS is in it when asked for, and now and then."""
        with_pss = read_pss or t >= self._pss_at
        if with_pss:
            self._pss_at = t + _PSS_SECONDS
        names = node_names()
        stores = object_stores()
        processes: dict[int, ProcessMemory] = {}
        pss_bytes: dict[int, int] = {}
        shm_bytes = 0
        now: dict[int, str] = {}
        headrooms: list[Event] = []
        for node_id, facts in self._ask(list(names), with_pss).items():
            name = names[node_id]
            offset = _PIDS * self._numbers.setdefault(node_id, len(self._numbers))
            held = stores.get(name, {}).get("used_bytes", 0)
            pids = []
            for worker in [*facts["workers"], *_plasma(held)]:
                pids.append(offset + worker["pid"])
                now[pids[-1]] = f"{name} {_described(worker)}"
                processes[pids[-1]] = ProcessMemory(*worker["levels"])
                if worker.get("pss_bytes") is not None:
                    pss_bytes[pids[-1]] = worker["pss_bytes"]
            headrooms.append(_headroom(name, facts, pids, t))
            shm_bytes += held
        event = SampleEvent(t=t, processes=processes, pss_bytes=pss_bytes, shm_bytes=shm_bytes)
        return [*self._changes(now, t), *headrooms, event]

    def _ask(self, node_ids: list[str], with_pss: bool) -> dict[str, dict[str, Any]]:
        """What the nodes answer; one that does not in time is left out of this sample."""
        asked = {
            self._question.options(
                num_cpus=0,
                max_retries=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
            ).remote(with_pss): node_id
            for node_id in node_ids
        }
        done, late = ray.wait(list(asked), num_returns=len(asked), timeout=_ANSWER_SECONDS)
        for answer in late:
            ray.cancel(answer, force=True)
        found = {}
        for answer in done:
            try:
                found[asked[answer]] = ray.get(answer)
            except ray.exceptions.RayError:  # the node has gone meanwhile
                continue
        return found

    def _changes(self, now: dict[int, str], t: float) -> list[Event]:
        gone = [pid for pid in self._known if pid not in now]
        new = [pid for pid, title in now.items() if self._known.get(pid) != title]
        self._known = now
        return [
            *(ProcessEndEvent(t=t, pid=pid) for pid in gone),
            *(ProcessEvent(t=t, pid=pid, command=now[pid]) for pid in new),
        ]


def _plasma(held_bytes: int) -> list[dict[str, Any]]:
    """A node's object store as a row: what workers map of it is counted there, once."""
    row = {"pid": _PIDS - 1, "title": _STORE, "levels": [0, 0, held_bytes, 0, 0]}
    return [{**row, "pss_bytes": held_bytes}] if held_bytes else []


def _described(worker: dict[str, Any]) -> str:
    """`env runner (pid 3497) ray::SingleAgentEnvRunner.sample`."""
    title = str(worker["title"])
    if title == _STORE:
        return title
    role = next((f"{role} " for part, role in _ROLES.items() if part in title), "")
    return f"{role}(pid {worker['pid']}) {title}"


def _headroom(name: str, facts: dict[str, Any], pids: list[int], t: float) -> Event:
    """What is left on a node until Ray's memory monitor kills, else until its end."""
    kill = facts["kill_bytes"]
    source = f"Ray's memory monitor on {name}" if kill else f"memory of {name}"
    end = kill or facts["limit_bytes"]
    left_bytes = max(0, end - facts["used_bytes"])
    return HeadroomEvent(t=t, pids=tuple(pids), bytes=left_bytes, limit=Limit(end, source))


def _connect(address: str) -> None:
    if ray.is_initialized():
        return
    _require_answer(address)
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        ray.init(address=address, namespace="ramledger", log_to_driver=False,
                 logging_level="ERROR", configure_logging=False)  # fmt: skip
    except (ConnectionError, ValueError, RuntimeError) as error:
        what = (str(error).strip() or type(error).__name__).splitlines()[0]
        if "version" in what.lower():
            here = f"python {sys.version.split()[0]} and ray {ray.__version__} are here"
            raise ConfigError(what, hint=here) from None
        raise _no_cluster(address, what) from None


def _require_answer(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return  # `auto`, `local`
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, getattr(error, "strerror", None) or str(error)) from None


def _no_cluster(address: str, why: str) -> ProcessGoneError:
    return ProcessGoneError(
        f"no Ray cluster answers at {address}: {why}",
        hint="`auto` finds one on this machine; else HOST:6379 of its head node",
    )
