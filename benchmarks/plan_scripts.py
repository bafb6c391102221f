"""How much of public training scripts `ramledger plan` resolves without help; nothing is run.

    python -m benchmarks.plan_scripts FOLDER...

Every .py file below the folders, and every block of Python in .md files that calls `learn`, is
read as a script. Eight values decide a plan; one that is left to its library's default counts.
"""

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ramledger.errors import ConfigError, RamledgerError
from ramledger.plan.formulas.known_environments import known_environment
from ramledger.plan.make_plan import plan
from ramledger.plan.sources.any_source import read_source
from ramledger.plan.sources.source_result import Reading

NEEDED = (
    "algorithm", "observation", "action", "environments", "rollout or buffer", "batch", "networks",
    "total steps",
)  # fmt: skip
FIELDS = {
    "algorithm": ("algorithm",),
    "environments": ("n_envs",),
    "rollout or buffer": ("n_steps", "buffer_size"),
    "batch": ("batch_size",),
    "networks": ("net_arch", "policy", "policy_kwargs"),
}


@dataclass(frozen=True)
class Outcome:
    name: str
    framework: str
    missing: tuple[str, ...]
    is_planned: bool


def main(folders: Sequence[str]) -> int:
    if not folders:
        sys.exit(__doc__)
    outcomes: list[Outcome] = []
    refused: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for path in scripts(folders, Path(scratch)):
            found = judged(path)
            if isinstance(found, Outcome):
                outcomes.append(found)
            else:
                refused.append(f"{path.name}: {found}")
    print("| script | framework | resolved | missing | planned |\n|---|---|--:|---|---|")
    for outcome in outcomes:
        resolved = f"{len(NEEDED) - len(outcome.missing)} of {len(NEEDED)}"
        planned = "yes" if outcome.is_planned else "no"
        missing = ", ".join(outcome.missing)
        print(f"| {outcome.name} | {outcome.framework} | {resolved} | {missing} | {planned} |")
    for line in refused:
        print(f"refused: {line}")
    print("\n" + summary(outcomes))
    return 0


def summary(outcomes: Sequence[Outcome]) -> str:
    lines = [
        "| framework | scripts | values resolved | planned without help |",
        "|---|--:|--:|--:|",
    ]
    for name in [*sorted({outcome.framework for outcome in outcomes}), "all"]:
        chosen = [outcome for outcome in outcomes if name in ("all", outcome.framework)]
        wanted = len(NEEDED) * len(chosen)
        have = wanted - sum(len(outcome.missing) for outcome in chosen)
        planned = sum(outcome.is_planned for outcome in chosen)
        share = f"{have} of {wanted} ({have / max(wanted, 1):.0%})"
        lines.append(f"| {name} | {len(chosen)} | {share} | {planned} |")
    return "\n".join(lines)


def scripts(folders: Sequence[str], scratch: Path) -> Iterator[Path]:
    for folder in folders:
        found = Path(folder)
        yield from sorted(found.rglob("*.py"))
        for page in sorted(found.rglob("*.md")):
            blocks = re.findall(r"^```\s*python\n(.*?)^```", page.read_text(), re.M | re.S)
            for number, block in enumerate(blocks):
                if ".learn(" in block:
                    path = scratch / f"{page.stem}-{number}.py"
                    path.write_text(block)
                    yield path


def judged(path: Path) -> Outcome | str:
    """What was missing, or why it was refused."""
    try:
        reading = read_source(str(path))
    except ConfigError as error:
        return error.message.replace(str(path), path.name)
    try:
        plan(reading)
        is_planned = True
    except RamledgerError:
        is_planned = False
    return Outcome(path.name, reading.config.framework, tuple(missing(reading)), is_planned)


def missing(reading: Reading) -> Iterator[str]:
    config = reading.config
    known = known_environment(config.env)
    for name in NEEDED:
        fields = FIELDS.get(name, ())
        is_open = any(f" {field}" in line for field in fields for line in reading.unresolved)
        if name in ("observation", "action"):
            is_open = getattr(config, name) is None and known is None
        elif name == "total steps":
            is_open = config.total_steps is None
        if is_open:
            yield name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
