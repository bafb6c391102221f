"""How a program under test talks: it prints its truth as one JSON line, then answers on stdin.

"snapshot" prints the statement of its own ledger (programs started with --claim only); end of
input ends the program.
"""

import json
import os
import sys
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


def hold(truth: dict[str, Any], ledger: Any = None) -> None:
    """Say what is true, then stay alive and answer until standard input ends."""
    print(json.dumps({"pid": os.getpid(), "truth": truth}), flush=True)
    for line in sys.stdin:
        if line.strip() == "snapshot" and ledger is not None:
            print(json.dumps(ledger.snapshot().to_dict()), flush=True)
