"""The statement of this process, offered to whoever may ask: what an agent answers with."""

from collections.abc import Mapping
from typing import Any

from ramledger.agent.launch_environment import run_settings
from ramledger.agent.observer import start_observing
from ramledger.agent.server import register_handler, start_agent
from ramledger.hooks.import_costs import start_tracking, tracker
from ramledger.interpreter.loaded_packages import loaded_packages
from ramledger.statement.own import TOP_LARGE_OBJECTS, own_statement


def start() -> None:
    """Watch imports from now on, listen for questions, and report to a recorder if there is."""
    start_tracking()
    settings = run_settings()
    if settings is not None and settings.recorder:
        start_observing(settings)
    serve_statements()


def serve_statements() -> None:
    """Listen for questions without watching imports: for a process entered later."""
    register_handler("statement", _answer)
    register_handler("imports", _imports)
    start_agent()


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    top = request.get("top", TOP_LARGE_OBJECTS)
    objects = request.get("objects", True)
    return own_statement(
        objects=bool(objects), top=top if isinstance(top, int) and 0 < top < 10_000 else 20
    ).to_dict()


def _imports(_: Mapping[str, Any]) -> dict[str, Any]:
    """What this process has imported, and what of it was measured while it was imported."""
    watching = tracker()
    return {
        **loaded_packages().to_dict(),
        "measured": sorted(watching.costs) if watching is not None else [],
        "saw_start": watching is not None and watching.saw_start,
    }
