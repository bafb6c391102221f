"""Events of a made-up run, as the recorder writes them (docs/recording.md)."""

from collections.abc import Iterator, Mapping
from typing import Any

MIB = 1 << 20
PID = 700

HEADER: dict[str, Any] = {
    "schema": "ramledger.recording/1",
    "ramledger": "0.1.0",
    "started_at": 1760000000.0,
    "command": ["python", "train.py", "--seed", "3"],
    "directory": "/data/run7",
    "limit": {"bytes": 1024 * MIB, "source": "--limit"},
    "settings": {"every_seconds": 0.5, "budget": 0.01},
}


def statement(
    accounts: Mapping[str, int],
    *,
    rss_bytes: int,
    pid: int = PID,
    more: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """A statement document; `more` are fields of entries by account."""
    return {
        "schema": "ramledger.statement/1",
        "pid": pid,
        "command": "python train.py --seed 3",
        "at": 1760000000.0,
        "rss_bytes": rss_bytes,
        "accounts": [
            {
                "account": account, "resident_bytes": size, "reserved_bytes": size,
                "source": "path", "objects": 1, "fill": None, "note": "",
            } | dict((more or {}).get(account, {}))
            for account, size in accounts.items()
        ],
        "large_objects": [],
        "facts": {},
        "notes": [],
        "children": [],
    }  # fmt: skip


def sample(t: float, sizes: Mapping[int, int], **more: Any) -> dict[str, Any]:
    rows = {str(pid): [size, 0, 0, 0, 2] for pid, size in sizes.items()}
    return {"event": "sample", "t": t, "processes": rows, "available_bytes": 1 << 34, **more}


def process(pid: int, command: str, parent: int = 1) -> dict[str, Any]:
    return {"event": "process", "t": 0.0, "pid": pid, "parent": parent, "command": command}


def phase(t: float, generation: int, name: str, before: int, after: int) -> dict[str, Any]:
    return {
        "event": "phase", "t": t, "pid": PID, "name": name, "generation": generation,
        "seconds": 1.0, "count": 1, "before_bytes": before, "after_bytes": after,
        "peak_bytes": after + 8 * MIB, "origin": "named",
    }  # fmt: skip


def generation(t: float, number: int, rss_bytes: int, pid: int = PID) -> dict[str, Any]:
    return {
        "event": "generation", "t": t, "pid": pid, "generation": number, "seconds": 2.0,
        "rss_bytes": rss_bytes, "anon_bytes": rss_bytes, "origin": "named",
    }  # fmt: skip


def snapshot(t: float, document: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "event": "snapshot", "t": t, "pid": document["pid"], "generation": None, "phase": "",
        "label": "", "statement": document, "counts": {}, "containers": [], "cost_seconds": 0.01,
        **more,
    }  # fmt: skip


def leaking_run(generations: int = 10) -> Iterator[dict[str, Any]]:
    """100 MiB, and 16 MiB more with each `evaluate`; a replay that is half full; two workers."""
    yield process(PID, "python train.py --seed 3")
    yield process(PID + 1, "python worker", PID)
    yield process(PID + 2, "python worker", PID)
    rss = 100 * MIB
    for number in range(generations):
        t = 4.0 * number
        before, rss = rss, rss + 16 * MIB
        for step in range(8):
            level = before if step < 4 else rss
            sizes = {PID: level, PID + 1: 20 * MIB, PID + 2: 10 * MIB}
            yield sample(t + step / 2, sizes, tree_pss_bytes=level + 30 * MIB)
        yield phase(t + 3.9, number, "evaluate", before, rss)
        yield phase(t + 3.9, number, "train", rss, rss)
        yield generation(t + 3.9, number, rss)
        leaked = rss - 60 * MIB
        accounts = {"variables/trainer.envs": leaked, "replay/observations": 40 * MIB}
        filled = {"reserved_bytes": 80 * MIB, "fill": 0.5, "source": "recognized"}
        document = statement(accounts, rss_bytes=rss, more={"replay/observations": filled})
        counts = {"__main__.TradingEnvironment": 2 + 16 * number, "dict": 5000 + number}
        envs = {"path": "trainer.envs", "type": "list", "length": 16 * number, "of": "Env"}
        yield snapshot(
            t + 3.95, document, generation=number, phase="evaluate", counts=counts,
            containers=[envs],
        )  # fmt: skip
    yield {
        "event": "expectation", "t": 5.0, "pid": PID, "type": "TradingEnvironment", "expected": 2,
        "found": 18, "generation": 1, "phase": "evaluate", "paths": ["trainer.envs[*]"],
    }  # fmt: skip
