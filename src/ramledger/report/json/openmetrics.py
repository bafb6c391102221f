"""A run as OpenMetrics text: gauges in base units, with labels that are bounded and escaped."""

from collections.abc import Iterable, Mapping

from ramledger.run.model import Run
from ramledger.run.time_left import TimeLeft

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
MAX_PROCESSES = 50
MAX_LABEL = 120

Sample = tuple[Mapping[str, str], float]


def openmetrics(run: Run, left: TimeLeft | None = None) -> str:
    """The current state of a run, for a dashboard."""
    lines: list[str] = []
    generation, phase = run.now
    snapshots = run.main_snapshots
    statement = snapshots.now.statement if snapshots is not None else None
    limit = run.limit
    _gauge(lines, "ramledger_run", "What is running", [({"command": run.command}, 1)], kind="info")
    _gauge(lines, "ramledger_tree_resident_bytes", "All processes, shared pages once",
           _one(run.tree.last if len(run.tree) else None))  # fmt: skip
    _gauge(lines, "ramledger_tree_peak_bytes", "Highest so far", _one(run.peak_bytes))
    _gauge(lines, "ramledger_limit_bytes", "The limit that ends the run first",
           [({"source": limit.source}, limit.bytes)] if limit else [])  # fmt: skip
    _gauge(lines, "ramledger_limit_used_bytes", "What counts against the limit",
           _one(run.used.last if len(run.used) else None))  # fmt: skip
    _gauge(lines, "ramledger_limit_reached_seconds", "Time left until the limit, where it is seen",
           _one(left.seconds_left if left else None))  # fmt: skip
    _gauge(lines, "ramledger_shared_memory_bytes", "/dev/shm, without files of other programs",
           _one(run.shm_bytes))  # fmt: skip
    _gauge(lines, "ramledger_process_resident_bytes", "RSS by process, the largest ones",
           [({"pid": str(row.pid), "command": row.command}, row.rss_bytes)
            for row in run.alive[:MAX_PROCESSES]])  # fmt: skip
    _gauge(lines, "ramledger_processes", "Processes of the run", _one(len(run.alive)))
    _gauge(lines, "ramledger_account_resident_bytes", "By account, at the last snapshot",
           [({"account": e.account}, e.resident_bytes) for e in statement.entries]
           if statement is not None else [])  # fmt: skip
    _gauge(lines, "ramledger_unexplained_bytes", "RSS without an account, at the last snapshot",
           _one(None if statement is None else statement.unexplained_bytes))  # fmt: skip
    _gauge(lines, "ramledger_generation", "Iteration of the training",
           [({"phase": phase}, generation)] if generation is not None else [])  # fmt: skip
    _gauge(lines, "ramledger_growth_bytes_per_generation", "Of the training process, 0 if flat",
           _one(run.growth_per_iteration()))  # fmt: skip
    _gauge(lines, "ramledger_broken_expectations", "Violations of --expect so far",
           _one(len(run.expectations)))  # fmt: skip
    return "\n".join([*lines, "# EOF", ""])


def _one(value: float | None) -> list[Sample]:
    return [] if value is None else [({}, value)]


def _gauge(
    lines: list[str], name: str, help_text: str, samples: Iterable[Sample], *, kind: str = "gauge"
) -> None:
    rows = list(samples)
    if not rows:
        return
    unit = next((unit for unit in ("bytes", "seconds") if name.endswith(f"_{unit}")), "")
    lines.append(f"# TYPE {name} {kind}")
    if unit:
        lines.append(f"# UNIT {name} {unit}")
    lines.append(f"# HELP {name} {help_text}")
    suffix = "_info" if kind == "info" else ""
    for labels, value in rows:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{name}{suffix}{{{inside}}} {value:.17g}" if inside
                     else f"{name}{suffix} {value:.17g}")  # fmt: skip


def _escaped(text: str) -> str:
    shown = "".join(c if c.isprintable() else "?" for c in text[:MAX_LABEL])
    return shown.replace("\\", "\\\\").replace('"', '\\"')
