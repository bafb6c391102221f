"""Names that can only be ramledger's own: attributes of its classes that no program here has."""

import re
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import ramledger
from tests.support.places import PROGRAMS

_ASSIGNED = re.compile(r"(?:\bself\.(\w+)\s*(?::[^=\n]+)?=[^=])|(?:^ {4}(\w+): )", re.M)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_PROGRAMS = ("idle_loop", "population_windows", "ppo_after_parsing")
_LIBRARIES = ("stable_baselines3", "gymnasium", "torch.nn.modules", "torch.optim", "numpy._core")
_LIVE_HALF = (
    *("measure", "objects", "phases", "hooks", "agent", "attach", "statement", "recorder"),
    *("interpreter", "integrations", "api.py", "process_session.py", "time_share.py"),
)


def our_parts(path: str) -> set[str]:
    """The parts of a path, account or type that only ramledger has; empty for a user's."""
    found = set(_IDENTIFIER.findall(path))
    return {one for one in found if one in _ours() or "ramledger" in one.lower()}


@cache
def _ours() -> frozenset[str]:
    home = Path(ramledger.__file__).parent
    assigned: set[str] = set()
    for room in _LIVE_HALF:
        place = home / room
        for file in place.rglob("*.py") if place.is_dir() else [place]:
            for pair in _ASSIGNED.findall(file.read_text()):
                assigned |= {name for name in pair if name}
    theirs: set[str] = set()
    for program in _PROGRAMS:
        theirs |= set(_IDENTIFIER.findall((PROGRAMS / f"{program}.py").read_text()))
    for library in _LIBRARIES:
        spec = find_spec(library)
        if spec is not None and spec.origin is not None:
            for file in Path(spec.origin).parent.rglob("*.py"):
                theirs |= set(_IDENTIFIER.findall(file.read_text()))
    return frozenset(assigned - theirs - sys.stdlib_module_names)
