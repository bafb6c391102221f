"""Callbacks of a script: what they save, and those that were built and never registered."""

import ast
from contextlib import suppress
from typing import Any

from ramledger.plan.budget import Check, Severity
from ramledger.plan.sources.expressions import Unknown, name_of
from ramledger.plan.sources.script_fields import Fields, whole
from ramledger.plan.sources.script_scopes import Call, Script


def read_callbacks(script: Script, fields: Fields) -> tuple[Check, ...]:
    """Fields about checkpoints and evaluations, and callbacks that never run."""
    callbacks: dict[str, Any] = {}
    line = 0
    for call in script.find("CheckpointCallback"):
        line = call.line
        try:
            every = call.value("save_freq", 0)
            if isinstance(every, int | float):
                callbacks["checkpoint_every"] = max(whole(every), 1)
        except Unknown as unknown:
            fields.unresolved.append(f"{script.place(line)}: save_freq is {unknown.what}")
        with suppress(Unknown):
            callbacks["save_replay_buffer"] = bool(call.value("save_replay_buffer", default=False))
    for call in script.find("EvalCallback", "MaskableEvalCallback"):
        line = line or call.line
        callbacks["evaluate"] = True
    if callbacks:
        fields.put("callbacks", callbacks, line)
    return tuple(_unregistered(script))


def _unregistered(script: Script) -> list[Check]:
    built = [
        call
        for call in script.calls
        if call.last.endswith("Callback")
        and call.target
        and "." not in call.target
        and call.last[0].isupper()
    ]
    if not built or not any(True for _ in script.find("learn")):
        return []
    uses = _uses(script)
    found = []
    for call in built:
        if call.target not in uses:
            found.append(_never_run(script, call))
    return found


def _uses(script: Script) -> set[str]:
    """Names that are read anywhere, or handed on as another's value."""
    used: set[str] = set()
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.add(node.id)
    return used


def _never_run(script: Script, call: Call) -> Check:
    lists = list(script.find("CallbackList"))
    place = lists[0] if lists else next(iter(script.find("learn")))
    register = (
        f"add {call.target} to the CallbackList in line {place.line}"
        if lists
        else f"learn(…, callback={call.target}) in line {place.line}"
    )
    return Check(
        "callback-not-registered",
        Severity.ERROR,
        script.place(call.line),
        f"{name_of(call.node.func)} is built as {call.target} and never used: it will not run",
        register,
    )
