"""What is true of each recording: one file a program in `labels/`."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
TRAININGS = PROGRAMS / "trainings"
LABELS = HERE / "labels"
RECORDINGS = HERE / "recordings"
MODES = ("bare", "marked")
LOADED = "-loaded"


@dataclass(frozen=True)
class Label:
    """The truth of one program. Where several answers are right, each of them is listed.

    A question whose answer is not known is not asked.
    """

    name: str
    verdict: str
    kinds: tuple[str, ...] = ()
    phase: str = ""
    functions: tuple[str, ...] = ()
    culprits: tuple[str, ...] = ()
    # canonical names of what holds the bytes; not asked yet
    owners: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    bytes_per_iteration: int = 0
    onset: int | None = None

    @classmethod
    def of(cls, name: str) -> "Label":
        """The label of a program, or of a recording under load."""
        text = (LABELS / f"{name.removesuffix(LOADED)}.toml").read_text(encoding="utf-8")
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in tomllib.loads(text).items()
        }
        return cls(name=name, **fields)

    @property
    def leaks(self) -> bool:
        return self.verdict == "leak"

    @property
    def questions(self) -> set[str]:
        """What is asked of a diagnosis beside the verdict."""
        asked = {
            "place": bool(self.phase),
            "cause": bool(self.causes),
            "culprit": bool(self.culprits),
            "rate": self.bytes_per_iteration > 0,
            "onset": self.onset is not None,
            "kind": bool(self.kinds),
        }
        return {question for question, is_asked in asked.items() if is_asked}


def program(name: str) -> Path:
    """The file of a program."""
    return next(PROGRAMS.rglob(f"{name}.py"))


def modes(name: str) -> tuple[str, ...]:
    """How a program is recorded: real trainings mark no phases."""
    return ("bare",) if program(name).parent == TRAININGS else MODES


def programs() -> list[str]:
    """Every labeled program, leaky ones first."""
    found = sorted(p.stem for p in PROGRAMS.rglob("*.py") if (LABELS / f"{p.stem}.toml").exists())
    return sorted(found, key=lambda name: name.startswith("healthy"))
