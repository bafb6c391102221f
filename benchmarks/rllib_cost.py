"""What `MemoryCallbacks` cost a cluster: bytes and time of a statement, measured with real Ray.

Prints the table of docs/rllib.md. Needs the environment of `make test-ray`.
"""

import os
import pickle
import tempfile
import time
from dataclasses import replace

import ray

from ramledger.events import Header
from ramledger.integrations.cluster.process_report import ProcessReport
from ramledger.integrations.cluster.ray_ledger import ClusterLedger, cluster_header
from ramledger.integrations.cluster.ray_reporter import Reporter
from ramledger.integrations.rllib import _MOST_PER_SECOND, Sender

STATEMENTS = 2_000
WORKERS = (10, 100, 1_000)


class Measured(ClusterLedger):
    """The actor, with its own processor time."""

    def cpu_seconds(self) -> float:
        return time.process_time()


def sender_and_actor() -> tuple[float, float, int]:
    """(CPU of a worker, CPU of the actor) a statement in seconds, and its bytes."""
    actor = ray.remote(Measured).options(num_cpus=0).remote()
    ray.get(actor.begin.remote("run", "", Header(), True))
    send = Sender(actor, "run")
    reporter = Reporter("env runner 1", "env runner", "10.0.0.1", 0.0, send)
    ray.get(actor.cpu_seconds.remote())
    before, began = ray.get(actor.cpu_seconds.remote()), time.process_time()
    for _ in range(STATEMENTS):
        reporter.report()
        ray.wait([send._under_way])  # none is skipped
    took = time.process_time() - began
    after = ray.get(actor.cpu_seconds.remote())
    size = len(pickle.dumps(reporter.current(), protocol=5))
    return took / STATEMENTS, (after - before) / STATEMENTS, size


def iteration(workers: int) -> tuple[float, float]:
    """Seconds of the actor at the end of an iteration, and bytes it writes, with many workers."""
    with tempfile.TemporaryDirectory() as folder:
        books = ClusterLedger()
        path = os.path.join(folder, "cost.ledger.jsonl")
        books.begin("run", path, cluster_header(["cost"], "run"), True)
        one = Reporter("x", "env runner", "10.0.0.1", 0.0, print).current()

        def said(index: int) -> ProcessReport:
            name = f"env runner {index}" if index else "driver"
            role = "env runner" if index else "driver"
            return replace(one, pid=1000 + index, name=name, role=role)

        for index in range(1, workers + 1):
            books.note("run", said(index))
        store = {"used_bytes": 1, "capacity_bytes": 2}
        books.iteration("run", 1, said(0), store)
        before, began = os.path.getsize(path), time.process_time()
        rounds = 10
        for number in range(2, 2 + rounds):
            books.iteration("run", number, said(0), store)
        took = (time.process_time() - began) / rounds
        return took, (os.path.getsize(path) - before) / rounds


def main() -> None:
    ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=100_000_000,
             log_to_driver=False, logging_level="ERROR")  # fmt: skip
    worker, actor, size = sender_and_actor()
    print(f"a statement: {size} B, {worker * 1e6:.0f} µs in the worker, {actor * 1e6:.0f} µs "
          "in the actor")  # fmt: skip
    print("| workers | period | CPU of a worker | CPU of the actor | actor's intake "
          "| an iteration's summary | recorded an iteration |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for count in WORKERS:
        period = max(1.0, count / _MOST_PER_SECOND)
        rate = count / period
        seconds, written = iteration(count)
        print(
            f"| {count:,} | {period:.0f} s | {worker / period:.3%} | {actor * rate:.1%} of a core "
            f"| {size * rate / 1024:.0f} KiB/s | {seconds * 1e3:.1f} ms "
            f"| {written / 1024:.1f} KiB |"
        )


if __name__ == "__main__":
    main()
