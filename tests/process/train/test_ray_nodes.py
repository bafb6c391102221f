"""A Ray cluster of several nodes, each with its own raylet and object store, on this machine."""

import contextlib
import os
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ramledger
from ramledger.events import RemoteProcessEvent
from ramledger.recording import Recording
from ramledger.train.trainer import Listener, Trainer
from ramledger.trainer_config import checked
from tests.support.small_trainings import (
    COMMAND,
    SMALL,
    SMALL_TOML,
    new_trainer,
    resumed,
    same,
    train,
)

ray = pytest.importorskip("ray", reason="make test-ray installs it")

from ray.cluster_utils import Cluster  # noqa: E402

from ramledger.train.ray_engine import RayEngine  # noqa: E402

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]  # ray has its own
NODES, CPUS = 3, 1
SPREAD: dict[str, Any] = {"population": 5, "shards": NODES, "generations": 3}


@pytest.fixture
def cluster() -> Iterator[Any]:
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    node = {"num_cpus": CPUS, "object_store_memory": 100 << 20}
    made = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    for _ in range(NODES - 1):
        made.add_node(**node)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def on_nodes(cluster: Any, folder: Path, listener: Listener | None = None) -> Trainer:
    config = checked({**SMALL, **SPREAD})
    engine = RayEngine(config, address=cluster.address)
    return Trainer(config, folder, ledger=ramledger.record(), listener=listener, engine=engine)


def nodes_of(trainer: Trainer) -> list[str]:
    assert isinstance(trainer.engine, RayEngine)
    return [found["node"] for found in trainer.engine.memory]


class NodeKiller(Listener):
    """Ends a whole node, not the head, in the middle of the second generation's updates."""

    def __init__(self, cluster: Any) -> None:
        self.cluster, self.before, self.lost = cluster, [""], ""

    def advance(self, trainer: Trainer, done: int, of: int) -> None:
        if (trainer.generation, done) == (1, 4):
            self.before = nodes_of(trainer)
            node = next(iter(self.cluster.worker_nodes))
            self.lost = f"{socket.gethostname()} {node.node_id[:8]}"
            self.cluster.remove_node(node, allow_graceful=False)


def test_shards_on_several_nodes_are_the_same_run(cluster: Any, tmp_path: Path) -> None:
    here = new_trainer(tmp_path / "here", **SPREAD)
    here.run()
    there = on_nodes(cluster, tmp_path / "there")
    assert there.run() == "finished"
    same(here, there)
    assert len(set(nodes_of(there))) == NODES


def test_a_node_that_is_lost_is_done_without(cluster: Any, tmp_path: Path) -> None:
    here = new_trainer(tmp_path / "here", **SPREAD)
    here.run()
    killer = NodeKiller(cluster)
    there = on_nodes(cluster, tmp_path / "there", killer)
    assert there.run() == "finished"
    same(here, there)
    assert isinstance(there.engine, RayEngine) and there.engine.deaths >= 1
    assert killer.lost in killer.before
    after = nodes_of(there)
    assert len(after) == NODES and killer.lost not in after


def test_the_command_on_a_cluster_records_actors_with_their_nodes(
    cluster: Any, tmp_path: Path
) -> None:
    (tmp_path / "small.toml").write_text(SMALL_TOML)
    done = train("small.toml", "--out", "run", "--generations", "2", "--engine", "ray",
                 "--workers", "3", "--address", cluster.address, cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    here = new_trainer(tmp_path / "here", generations=2, shards=3)
    here.run()
    same(here, resumed(tmp_path / "run"))
    recording = Recording.read(str(tmp_path / "run" / "train.ledger.jsonl"))
    told = list(recording.of_type(RemoteProcessEvent))
    assert [event.name for event in told] == ["shard 0", "shard 1", "shard 2"] * 2
    assert len({event.node for event in told}) == NODES
    assert all(event.limit and 0 < (event.pss_bytes or 0) < event.limit.bytes for event in told)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_ones:
        found = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]


@pytest.fixture
def client_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """`ray start` on two nodes, reached through the first one's client server, with a token."""
    pytest.importorskip("grpc", reason="ray[client]")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    port, client, agent = free_ports(3)
    start = [str(COMMAND.with_name("ray")), "start", "--block", "--disable-usage-stats",
             "--num-cpus=1", f"--object-store-memory={100 << 20}"]  # fmt: skip
    head = [*start, "--head", f"--port={port}", f"--ray-client-server-port={client}",
            f"--runtime-env-agent-port={agent}", "--include-dashboard=false",
            f"--temp-dir={tempfile.mkdtemp(prefix='ray', dir='/tmp')}"]  # fmt: skip
    with contextlib.ExitStack() as started:
        for number, command in enumerate((head, [*start, f"--address=127.0.0.1:{port}"])):
            log = started.enter_context((tmp_path / f"node{number}.log").open("w"))
            node = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            started.callback(node.wait, 60)
            started.callback(node.terminate)
            await_text(tmp_path / f"node{number}.log", "Ray runtime started", node)
        yield f"ray://127.0.0.1:{client}"


def await_text(path: Path, text: str, process: "subprocess.Popen[Any]") -> None:
    deadline = time.monotonic() + 120
    while text not in path.read_text():
        assert process.poll() is None and time.monotonic() < deadline, path.read_text()
        time.sleep(0.2)


def test_the_command_through_a_client_of_a_cluster(client_server: str, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL_TOML)
    done = train("small.toml", "--out", "run", "--generations", "2", "--engine", "ray",
                 "--workers", "2", "--address", client_server, cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    here = new_trainer(tmp_path / "here", generations=2, shards=2)
    here.run()
    same(here, resumed(tmp_path / "run"))
    recording = Recording.read(str(tmp_path / "run" / "train.ledger.jsonl"))
    told = list(recording.of_type(RemoteProcessEvent))
    assert len({event.node for event in told}) == 2
