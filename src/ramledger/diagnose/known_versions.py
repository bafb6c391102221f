"""Releases that are known to leak: a small table with links, asked with the versions of a run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ramledger.version_numbers import release


@dataclass(frozen=True, slots=True)
class KnownLeak:
    """One row of known_versions.json."""

    package: str
    first: str
    last: str
    fixed: str
    leaks: str
    causes: tuple[str, ...]
    link: str

    def concerns(self, version: str) -> bool:
        return release(self.first) <= release(version) <= release(self.last)

    def sentence(self, version: str) -> str:
        return (
            f"{self.package} {version} is known to leak {self.leaks}; "
            f"fixed in {self.fixed}: {self.link}"
        )


@cache
def known_leaks() -> tuple[KnownLeak, ...]:
    """The whole table."""
    text = files("ramledger.diagnose").joinpath("known_versions.json").read_text("utf-8")
    rows: list[dict[str, Any]] = json.loads(text)
    return tuple(KnownLeak(**{**row, "causes": tuple(row["causes"])}) for row in rows)


def known_in(versions: Mapping[str, str], cause: str) -> list[str]:
    """Sentences on the packages of a run that are known to leak in this way."""
    return [
        leak.sentence(versions[leak.package])
        for leak in known_leaks()
        if cause in leak.causes
        and leak.package in versions
        and leak.concerns(versions[leak.package])
    ]
