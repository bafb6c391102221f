"""Scenario programs through the real commands: `ramledger run`, then `ramledger diagnose`.

What a program's header expects is compared field by field with what the diagnosis says.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).with_name("programs")
# the first set is the one the rules were made on; see docs/accuracy-diagnose.md
SETS = {
    "first": PROGRAMS,
    "second": PROGRAMS / "second",
    "third": PROGRAMS / "third",
    "fourth": PROGRAMS / "fourth",
    "fifth": PROGRAMS / "fifth",
    "sixth": PROGRAMS / "sixth",
    "real": PROGRAMS / "real",
}
MARKED = Path(__file__).with_name("marked.py")
COMMAND = Path(sys.executable).with_name("ramledger")
MODES = ("bare", "marked")
MIB = 1 << 20
_SECONDS = 280
_RATE_ERROR = 0.2
_ONSET_ERROR = 1


@dataclass(frozen=True)
class Expected:
    """The header of a program."""

    name: str
    leaks: bool
    kinds: tuple[str, ...] = ()
    phase: str = ""
    functions: tuple[str, ...] = ()
    culprits: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    bytes_per_generation: float = 0.0
    onset: int = 0

    @classmethod
    def of(cls, name: str) -> "Expected":
        text = program(name).read_text()
        fields = dict(re.findall(r"^  (\w+): (.+)$", text, re.MULTILINE))
        return cls(
            name=name,
            leaks=fields["leak"] == "yes",
            kinds=_words(fields.get("kind", "")),
            phase=fields.get("phase", ""),
            functions=_words(fields.get("function", "")),
            culprits=_words(fields.get("culprit", "")),
            causes=_words(fields.get("cause", "")),
            bytes_per_generation=float(fields.get("mib_per_generation", 0)) * MIB,
            onset=int(fields.get("onset", 0)),
        )


@dataclass(frozen=True)
class Grade:
    """One diagnosis against its header; None where a question does not apply."""

    expected: Expected
    mode: str
    document: dict[str, Any]
    verdict: bool
    place: bool | None = None
    cause: bool | None = None
    culprit: bool | None = None
    rate: bool | None = None
    onset: bool | None = None
    kind: bool | None = None

    @property
    def is_right(self) -> bool:
        parts = (self.place, self.cause, self.culprit, self.rate, self.onset, self.kind)
        return self.verdict and all(part is not False for part in parts)

    @property
    def said(self) -> str:
        """The diagnosis on one line."""
        leaks = [f for f in self.document["findings"] if f["kind"] == "leak"]
        if not leaks:
            kinds = ", ".join(f["kind"] for f in self.document["findings"])
            return f"{self.document['verdict']} [{kinds}]: {self.document['reason'][:110]}"
        leak = leaks[0]
        return (
            f"{leak['bytes_per_generation'] / MIB:.1f} MiB [{leak['interval_bytes'][0] / MIB:.1f}, "
            f"{leak['interval_bytes'][1] / MIB:.1f}] in {leak['phase'] or '?'} since "
            f"{leak['onset_generation']}, {leak['cause']}: {leak['culprit']['type']} @ "
            f"{leak['culprit']['path']}"
        )


def names(*sets: str) -> list[str]:
    """Every program of these sets, or of all, leaky ones first."""
    folders = [SETS[name] for name in sets or SETS]
    patterns = ("leaky_*.py", "healthy_*.py")
    found = sorted(path.stem for folder in folders for p in patterns for path in folder.glob(p))
    return [n for n in found if n.startswith("leaky")] + [
        n for n in found if not n.startswith("leaky")
    ]


def program(name: str) -> Path:
    """The file of a program."""
    return next(path for folder in SETS.values() if (path := folder / f"{name}.py").exists())


def record(name: str, mode: str, out: Path) -> Path:
    """Run a program under the ledger."""
    path = str(program(name))
    command = [sys.executable, path] if mode == "bare" else [sys.executable, MARKED, path]
    done = subprocess.run(
        [COMMAND, "run", "--quiet", "--force", "--out", out, "--", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{name} ({mode}) ended with {done.returncode}: {done.stderr[-600:]}")
    return out


def diagnose(recording: Path) -> dict[str, Any]:
    """The JSON document of `ramledger diagnose`."""
    done = subprocess.run(
        [COMMAND, "diagnose", "--json", recording],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode not in (0, 3):
        raise RuntimeError(f"diagnose ended with {done.returncode}: {done.stderr[-600:]}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def grade(expected: Expected, mode: str, document: dict[str, Any]) -> Grade:
    """Compare a diagnosis with the header."""
    leaks = [f for f in document["findings"] if f["kind"] == "leak"]
    verdict = document["verdict"] == ("leak" if expected.leaks else "healthy")
    if not expected.leaks:
        kinds = {f["kind"] for f in document["findings"]} or {"none"}
        return Grade(expected, mode, document, verdict, kind=bool(kinds & set(expected.kinds)))
    if not leaks:
        return Grade(expected, mode, document, verdict)
    leak = leaks[0]
    places = (expected.phase,) if mode == "marked" else (*expected.functions, expected.phase)
    onset = leak["onset_generation"]
    rate = leak["bytes_per_generation"] / expected.bytes_per_generation
    return Grade(
        expected, mode, document, verdict,
        place=leak["phase"] in places,
        cause=leak["cause"] in expected.causes,
        culprit=any(_names(leak["culprit"]["type"], want) for want in expected.culprits),
        rate=abs(rate - 1) <= _RATE_ERROR,
        onset=onset is not None and abs(onset - expected.onset) <= _ONSET_ERROR,
    )  # fmt: skip


def _names(said: str, wanted: str) -> bool:
    return wanted.lower() in said.lower()


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
