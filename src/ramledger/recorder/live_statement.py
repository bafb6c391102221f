"""One question about a live process, answered as far as it can be entered."""

import os
from dataclasses import replace

from ramledger.agent.server import socket_path
from ramledger.attach.calibration import calibrate
from ramledger.attach.enter import ask_inside
from ramledger.errors import MeasureError, ProcessGoneError
from ramledger.interpreter.loaded_packages import LoadedPackages
from ramledger.ledger import Statement
from ramledger.measure.shm import shared_segments
from ramledger.measure.tree import descendants
from ramledger.statement.calibrated import (
    STARTUP,
    not_calibrated,
    unowned_bytes,
    with_calibrated,
)
from ramledger.statement.outside import outside_statement
from ramledger.units import MIB, format_bytes


def explain_process(
    pid: int, *, tree: bool = False, inside: bool = False, top: int = 20
) -> Statement:
    """The statement of a process; its agent is asked when it has one, others by `inside`."""
    statement = _explain_one(pid, inside=inside, top=top)
    statement = replace(statement, notes=(*statement.notes, *_orphans()))
    if tree:
        children = []
        for child in descendants(pid):
            try:
                children.append(_explain_one(child, inside=False, top=top))
            except MeasureError:
                continue  # gone meanwhile, or another user's: the others still count
        statement = replace(statement, children=tuple(children))
    return statement


def calibrated(statement: Statement) -> Statement:
    """With the costs of imports that the process itself could not measure, where it was late.

    They are measured in a second process, once, and kept: see `attach/calibration.py`.
    """
    if not statement.inside:
        return statement
    try:
        reply = ask_inside(statement.pid, {"verb": "imports"}, method="agent")
        if reply["saw_start"]:
            return statement
        loaded = LoadedPackages.from_dict(reply)
        most_bytes = unowned_bytes(statement) + statement.total("libraries")
        table = calibrate(statement.pid, loaded, most_bytes)
        measured = set(reply["measured"])
    except (MeasureError, KeyError, TypeError, ValueError) as error:
        return not_calibrated(statement, f"not calibrated: {error}")
    costs = {
        f"imports/{package}" if package else STARTUP: pair
        for package, pair in table.costs_of(loaded).items()
        if package not in measured
    }
    return with_calibrated(statement, {**costs, "ramledger": table.tool})


def _orphans() -> list[str]:
    """Shared memory that no process maps: RAM that no process's statement can show."""
    orphans = [s for s in shared_segments() if s.is_orphan and s.resident_bytes >= MIB]
    if not orphans:
        return []
    total = format_bytes(sum(segment.resident_bytes for segment in orphans))
    names = ", ".join(segment.name for segment in orphans[:3])
    more = ", …" if len(orphans) > 3 else ""
    return [f"{total} of shared memory is mapped by no process ({names}{more}): leaked segments"]


def _explain_one(pid: int, *, inside: bool, top: int) -> Statement:
    if not inside and not os.path.exists(socket_path(pid)):
        return outside_statement(pid)
    try:
        reply = ask_inside(pid, {"verb": "statement", "top": top})
        return Statement.from_dict(reply)
    except ProcessGoneError:
        raise
    except MeasureError as error:
        statement = outside_statement(pid)
        reason = f"seen from outside only: {error}"
        return replace(statement, notes=(*statement.notes, reason))
