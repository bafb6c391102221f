"""How sure a finding is: how often findings of its kind were right on the corpus.

`python -m tests.corpus.judge --write` counts them and renews `calibration.json`.
"""

import json
from functools import cache
from importlib.resources import files

from ramledger.diagnose.finding import Finding, Kind

_CALIBRATION = "calibration.json"


def key_of(finding: Finding) -> str:
    """Findings of one key are equally sure: `native-leak`, `unknown guessed`, `no leak`."""
    if finding.kind is not Kind.LEAK:
        return "no leak"
    return f"{finding.cause} guessed" if finding.is_guess else str(finding.cause)


def confidence_in(finding: Finding) -> float:
    """The share that was right. With few cases it is nearer to one half, as Laplace's rule says."""
    right, of = _counts().get(key_of(finding), (0, 0))
    return (right + 1) / (of + 2)


@cache
def _counts() -> dict[str, tuple[int, int]]:
    text = files("ramledger.diagnose").joinpath(_CALIBRATION).read_text(encoding="utf-8")
    return {key: (row["right"], row["of"]) for key, row in json.loads(text).items()}
