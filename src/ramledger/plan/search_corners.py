"""A search that was rehearsed at its corners: what its smallest and its largest trial need."""

from collections.abc import Sequence
from dataclasses import replace

from ramledger.events import SuggestionEvent
from ramledger.ledger import printable
from ramledger.plan.budget import Budget, Check, Severity
from ramledger.units import format_bytes

_SHOWN = 6  # settings in a sentence


def with_corners(
    largest: Budget, smallest: Budget, suggestions: Sequence[SuggestionEvent]
) -> Budget:
    """The budget of the largest trial, with what the smallest one needs beside it."""
    needs, least = (format_bytes(one.ram.needed.expected) for one in (largest, smallest))
    message = f"the largest corner ({_settings(suggestions)}) needs {needs}, the smallest {least}"
    if largest.fits:
        check = Check("search-range", Severity.NOTE, "the search", message, "nothing to do")
    else:
        fix = "narrow the ranges, or prune such trials before they start (docs/optuna.md)"
        check = Check("search-range", Severity.ERROR, "the search", message, fix)
    return replace(largest, checks=(check, *largest.checks))


def _settings(suggestions: Sequence[SuggestionEvent]) -> str:
    shown = [
        f"{printable(one.name)}={printable(one.value)} of {printable(one.lowest)} to "
        f"{printable(one.highest)}"
        for one in suggestions[:_SHOWN]
    ]
    more = len(suggestions) - len(shown)
    return ", ".join([*shown, *([f"{more} more"] if more > 0 else [])])
