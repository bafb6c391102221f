"""Why memory leaks, as one rule says it: cause, culprit, evidence and what to do."""

from dataclasses import dataclass, field

from ramledger.diagnose.finding import Cause, Culprit


@dataclass(frozen=True, slots=True)
class Explanation:
    """The cause of a leak, as far as evidence shows it."""

    cause: Cause
    culprit: Culprit = field(default_factory=Culprit)
    evidence: tuple[str, ...] = ()
    advice: str = ""
    is_guess: bool = False  # a likely cause, where no snapshot shows the objects
    added_in: tuple[str, ...] = ()  # lines that add to the container: `train.py:29 in Agent.log: …`
