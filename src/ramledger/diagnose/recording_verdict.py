"""`ramledger.diagnose(recording) -> Diagnosis`: what the command of that name prints."""

import os

from ramledger.diagnose import verdict
from ramledger.diagnose.finding import Diagnosis
from ramledger.run.model import Run


def diagnose(recording: str | os.PathLike[str], *, since: int | None = None) -> Diagnosis:
    """Leak, healthy or undecided, with the evidence; `since` judges from that generation on.

    A recording that is still being written is judged as far as it is.
    """
    return verdict.diagnose(Run.read(os.fspath(recording)), since)
