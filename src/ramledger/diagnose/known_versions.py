"""Leaks that are known in releases of libraries: a table with links, asked with the evidence.

A release alone names nothing: the cause must fit, and the class that piles up, what holds it, or
a line that ran while memory grew.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ramledger.diagnose.code_lines import text_of
from ramledger.diagnose.finding import Explanation, KnownLeak
from ramledger.version_numbers import release


@dataclass(frozen=True, slots=True)
class Signature:
    """What in a finding must fit: one of the causes, and one of all the others."""

    causes: tuple[str, ...]
    classes: tuple[str, ...] = ()  # full names of what piles up
    owners: tuple[str, ...] = ()  # parts of the path that holds it
    calls: tuple[str, ...] = ()  # patterns of a line of code

    def fits(self, found: Explanation, lines: Iterable[str]) -> bool:
        if str(found.cause) not in self.causes:
            return False
        culprit = found.culprit
        return (
            culprit.type in self.classes
            or any(owner in culprit.path for owner in self.owners)
            or any(re.search(call, text_of(line)) for line in lines for call in self.calls)
        )


@dataclass(frozen=True, slots=True)
class LeakyRelease:
    """One row of known_versions.json; releases `first` to `last` leak."""

    package: str
    first: str
    last: str
    fixed: str
    leaks: str
    signature: Signature
    link: str
    checked: str  # how
    instead: str = ""  # what to do where no release fixes it

    def concerns(self, version: str) -> bool:
        return release(self.first) <= release(version) <= release(self.last)

    def in_version(self, version: str) -> KnownLeak:
        return KnownLeak(self.package, version, self.leaks, self.fixed, self.link, self.instead)


@cache
def leaky_releases() -> tuple[LeakyRelease, ...]:
    """The whole table."""
    text = files("ramledger.diagnose").joinpath("known_versions.json").read_text("utf-8")
    rows: list[dict[str, Any]] = json.loads(text)
    return tuple(LeakyRelease(**{**row, "signature": _signature(row)}) for row in rows)


def _signature(row: Mapping[str, Any]) -> Signature:
    return Signature(**{name: tuple(texts) for name, texts in row["signature"].items()})


def known_leaks(
    versions: Mapping[str, str], found: Explanation, lines: Iterable[str]
) -> tuple[KnownLeak, ...]:
    """Those that the releases of a run have, and that its evidence fits.

    `lines`: of the program, that store, make, or ran while memory grew.
    """
    lines = tuple(lines)
    return tuple(
        leaky.in_version(versions[leaky.package])
        for leaky in leaky_releases()
        if leaky.package in versions
        and leaky.concerns(versions[leaky.package])
        and leaky.signature.fits(found, lines)
    )
