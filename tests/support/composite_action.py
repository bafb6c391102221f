"""Runs the shell steps of a composite action as GitHub's runner would, on this machine.

Steps that use other actions are not run: what those of the cache do, a test does itself.
"""

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


@dataclass
class ActionRun:
    """What came of it: the outputs of steps, all that was printed, the steps that failed."""

    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    log: str = ""
    failed: list[str] = field(default_factory=list)


def run_action(
    path: Path, workspace: Path, inputs: dict[str, str], environment: dict[str, str]
) -> ActionRun:
    """Every shell step in turn; after one has failed, only those that are `always()` run."""
    action = yaml.safe_load(path.read_text(encoding="utf-8"))
    defaults = {name: str(one.get("default", "")) for name, one in action["inputs"].items()}
    unknown = inputs.keys() - defaults.keys()
    assert not unknown, unknown
    known = {f"inputs.{name}": value for name, value in (defaults | inputs).items()}
    known |= {"github.action_path": str(path.parent), "github.workspace": str(workspace)}
    run = ActionRun()
    for step in action["runs"]["steps"]:
        if "run" in step and (not run.failed or "always()" in step.get("if", "")):
            _run_step(step, known, workspace, environment, run)
    return run


def _run_step(
    step: dict[str, Any], known: dict[str, str], workspace: Path, environment: dict[str, str],
    run: ActionRun,
) -> None:  # fmt: skip
    # expressions in a script would be code of whoever writes the input
    assert "${{" not in step["run"]
    values = {name: _evaluated(str(value), known) for name, value in step.get("env", {}).items()}
    output = workspace / ".github_output"
    output.write_text("")
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=workspace, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        env=os.environ | environment | values | {"GITHUB_OUTPUT": str(output)},
    )  # fmt: skip
    run.log += done.stdout + done.stderr
    if done.returncode:
        run.failed.append(step["name"])
    pairs = [line.partition("=") for line in output.read_text().splitlines()]
    for name, _, value in pairs:
        run.outputs.setdefault(step["id"], {})[name] = value
        known[f"steps.{step['id']}.outputs.{name}"] = value


def _evaluated(text: str, known: dict[str, str]) -> str:
    return _EXPRESSION.sub(lambda found: known[found[1]], text)
