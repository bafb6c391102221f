"""Nodes of a Ray cluster: their names, and what the object store of each holds."""

from contextlib import suppress
from typing import Any

import ray

_ANSWER_SECONDS = 5.0
_SHORT_ID = 6


def node_names() -> dict[str, str]:
    """Living nodes by id: the address, and the id as well where several share an address."""
    living = [node for node in ray.nodes() if node["Alive"]]
    addresses = [node["NodeManagerAddress"] for node in living]
    return {
        node["NodeID"]: address
        if addresses.count(address) == 1
        else f"{address}#{node['NodeID'][:_SHORT_ID]}"
        for node, address in zip(living, addresses, strict=True)
    }


def own_node() -> str:
    """The name of the node that this process runs on."""
    here = ray.get_runtime_context().get_node_id()
    return node_names().get(here) or str(ray.util.get_node_ip_address())


def object_stores() -> dict[str, dict[str, int]]:
    """By node: bytes used, pinned and spilled; only nodes that answer."""
    names = node_names()
    found = {}
    for node in ray.nodes():
        if node["NodeID"] in names:
            with suppress(Exception):
                found[names[node["NodeID"]]] = _store_of(node)
    return found


def all_stores(stores: dict[str, dict[str, int]]) -> dict[str, int] | None:
    """The sums over all nodes; from the cluster's resources where no node answered."""
    if stores:
        keys = next(iter(stores.values()))
        return {key: sum(store[key] for store in stores.values()) for key in keys}
    with suppress(Exception):
        capacity = int(ray.cluster_resources().get("object_store_memory", 0))
        free = int(ray.available_resources().get("object_store_memory", 0))
        return {"used_bytes": capacity - free, "capacity_bytes": capacity}
    return None


def _store_of(node: dict[str, Any]) -> dict[str, int]:
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated import node_manager_pb2, node_manager_pb2_grpc

    channel = init_grpc_channel(f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}")
    try:
        stub = node_manager_pb2_grpc.NodeManagerServiceStub(channel)
        question = node_manager_pb2.GetNodeStatsRequest(include_memory_info=False)
        stats = stub.GetNodeStats(question, timeout=_ANSWER_SECONDS).store_stats
    finally:
        channel.close()
    return {
        "used_bytes": int(stats.object_store_bytes_used),
        "capacity_bytes": int(stats.object_store_bytes_avail),
        "pinned_bytes": int(stats.object_store_bytes_primary_copy),
        "spilled_bytes": int(stats.spilled_bytes_total),
        "objects": int(stats.num_local_objects),
    }
