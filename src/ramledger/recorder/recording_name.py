"""What a recording is called when nobody names it: the script, the date and the time."""

import os
import time
from collections.abc import Sequence

from ramledger.recording import SUFFIX

_MAX_NAME = 80
_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")  # of the Python interpreter
_SHELLS = ("sh", "bash", "dash", "zsh")


def free_path(command: Sequence[str]) -> str:
    """`train-20260131-142500.ledger.jsonl` in this directory, or the next one that is free."""
    name = f"{script_name(command)}-{time.strftime('%Y%m%d-%H%M%S')}"
    attempt, path = 1, f"{name}{SUFFIX}"
    while os.path.lexists(path):
        attempt, path = attempt + 1, f"{name}-{attempt + 1}{SUFFIX}"
    return path


def script_name(command: Sequence[str]) -> str:
    """What a run is called: the script, the module after -m, or the program itself."""
    program = os.path.basename(command[0]) or "run"
    words = iter(command[1:] if _is_interpreter(program) else ())
    for word in words:
        if word in _OPTIONS_WITH_VALUE:
            next(words, None)
        elif word in ("-c", "-"):
            break
        elif word == "-m":
            program = next(words, program)
            break
        elif not word.startswith("-"):
            program = os.path.basename(word)
            break
    stem = program.removesuffix(".py").removesuffix(".sh")
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in stem)[:_MAX_NAME] or "run"


def _is_interpreter(program: str) -> bool:
    return program.startswith(("python", "pypy")) or program in _SHELLS
