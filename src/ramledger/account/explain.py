"""One question about a live process, answered as far as it can be entered."""

import os
from dataclasses import replace

from ramledger.account.enter import ask_inside
from ramledger.account.statement import outside_statement, own_statement
from ramledger.errors import MeasureError, ProcessGoneError
from ramledger.inside.agent import socket_path
from ramledger.ledger import Statement
from ramledger.measure.tree import descendants


def explain_process(
    pid: int, *, tree: bool = False, inside: bool = False, top: int = 20
) -> Statement:
    """The statement of a process; its agent is asked when it has one, others by `inside`."""
    statement = _explain_one(pid, inside=inside, top=top)
    if tree:
        children = []
        for child in descendants(pid):
            try:
                children.append(_explain_one(child, inside=False, top=top))
            except MeasureError:
                continue  # gone meanwhile, or another user's: the others still count
        statement = replace(statement, children=tuple(children))
    return statement


def _explain_one(pid: int, *, inside: bool, top: int) -> Statement:
    if pid == os.getpid():
        return own_statement(top=top)
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
