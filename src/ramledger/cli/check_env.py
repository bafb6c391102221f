"""`ramledger check-env module:make_env`: is it my environment that leaks?"""

import json as json_format
import os
import sys
import tempfile
from typing import Annotated

from cyclopts import Parameter, validators
from rich.console import Console
from rich.text import Text

from ramledger.cli.run_screens import say
from ramledger.diagnose.finding import Verdict
from ramledger.integrations.environments.env_check import EnvVerdict, check_env
from ramledger.ledger import printable
from ramledger.measure.proc import require_linux
from ramledger.report.terminal.diagnosis_text import print_diagnosis
from ramledger.units import format_bytes

EXIT_LEAK = 3

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Count = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=10_000_000))]


def check(
    env: str,
    /,
    *,
    resets: Count = 200,
    steps: Count = 100,
    rebuild: Flag = False,
    out: str | None = None,
    force: Flag = False,
    json: Flag = False,
) -> int:
    """Reset one environment repeatedly, alone, and judge its memory. Exit code 3 on a leak.

    Parameters
    ----------
    env
        `module:make_env`, a function or class that makes it, or a Gymnasium id.
    resets
        How many episodes.
    steps
        The most steps of an episode, with random actions.
    rebuild
        Close it and make a new one for every episode, to see whether making one leaks.
    out
        Keep the recording in this file.
    force
        Overwrite that file.
    json
        Print one JSON document.
    """
    require_linux()
    if not json and sys.stderr.isatty():
        say(f"{env}: {resets} resets, up to {steps} steps each …")
    with tempfile.TemporaryDirectory() as folder:
        recording = out or os.path.join(folder, "check.ledger.jsonl")
        verdict = check_env(
            env, recording, resets=resets, steps=steps, rebuild=rebuild, force=force
        )
    if json:
        print(json_format.dumps(verdict.to_dict(), indent=2))
    else:
        _show(verdict, Console(highlight=False))
    return EXIT_LEAK if verdict.diagnosis.verdict is Verdict.LEAK else 0


def _show(verdict: EnvVerdict, console: Console) -> None:
    how = "made anew for each" if verdict.rebuilt else "the same one throughout"
    did = f"{verdict.resets:,} resets and {verdict.steps:,} steps, {how}"
    answers = {
        Verdict.LEAK: "yes, this environment leaks",
        Verdict.HEALTHY: "no, this environment does not leak",
        Verdict.UNDECIDED: "undecided",
    }
    answer = f"{answers[verdict.diagnosis.verdict]}: {printable(verdict.env)}, {did}"
    console.print(Text(answer), soft_wrap=True)
    for leak in verdict.leaks:
        console.print(Text(f"  {format_bytes(round(verdict.per_reset(leak)))} a reset"))
    console.print()
    print_diagnosis(verdict.diagnosis, console)
