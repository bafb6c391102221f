"""Starts the agent in a Python process if its environment asks for that, and nothing else.

Python imports `sitecustomize` from PYTHONPATH at start-up. An existing sitecustomize of the user's
environment is run afterwards exactly as if this file were not there.
"""

import os
import sys


def _import_agent() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    package_parent = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    sys.path.insert(0, package_parent)
    try:
        from ramledger.agent.start import start

        if os.environ.get("RAMLEDGER_APPLY"):
            from ramledger.remedies.start import start_remedies
    finally:
        sys.path.remove(package_parent)
    start()
    if os.environ.get("RAMLEDGER_APPLY"):
        start_remedies()


def _import_next() -> None:
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


try:
    _import_agent()
except Exception as error:  # the training must start whatever happens to its observer
    print(f"ramledger: no agent in this process: {error}", file=sys.stderr)
_import_next()
