"""How a program under test talks: it prints its truth as one JSON line, then answers on stdin.

"snapshot" prints the statement of its own ledger (programs started with --claim only), "call FILE
FUNCTION" what that function says of the program's roots; end of input ends the program.
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any


def open_ledger() -> Any:
    """The ledger when started with --claim, before any heavy import; otherwise None."""
    if "--claim" not in sys.argv:
        return None
    import ramledger

    return ramledger.record()


def place_of(array: Any) -> tuple[int, int]:
    """Address and size of an array's data."""
    return array.__array_interface__["data"][0], array.nbytes


def hold(
    truth: Mapping[str, Any], ledger: Any = None, roots: Mapping[str, Any] | None = None
) -> None:
    """Say what is true, then stay alive and answer until standard input ends."""
    print(json.dumps({"pid": os.getpid(), "truth": truth}), flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "snapshot" and ledger is not None:
            print(json.dumps(ledger.snapshot().to_dict()), flush=True)
        elif command == "call":
            import runpy

            path, name = arguments
            print(json.dumps(runpy.run_path(path)[name](roots)), flush=True)
