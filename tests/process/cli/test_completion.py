"""`ramledger --install-completion`: nothing is written unasked, and bash completes with it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.terminals import Terminal

COMMAND = Path(sys.executable).with_name("ramledger")
SCRIPTS = {
    "bash": ".local/share/bash-completion/completions/ramledger",
    "zsh": ".zsh/completions/_cyclopts_ramledger",
    "fish": ".config/fish/completions/ramledger.fish",
}
START_FILES = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ""}


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ZSH")}
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    return kept | {"HOME": str(home), "PATH": path}


def install(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [COMMAND, "--install-completion", *arguments],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment(home),
        timeout=100,
    )  # fmt: skip


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("shell", SCRIPTS)
def test_without_consent_nothing_is_written(tmp_path: Path, shell: str) -> None:
    done = install(tmp_path, "--shell", shell)
    assert done.returncode == 1
    assert str(tmp_path / SCRIPTS[shell]) in done.stdout
    assert "nothing was written" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", SCRIPTS)
def test_with_consent_it_says_what_it_wrote_and_how_to_undo_it(tmp_path: Path, shell: str) -> None:
    start_file = START_FILES[shell]
    if start_file:
        (tmp_path / start_file).write_text("mine=1\n")
    done = install(tmp_path, "--shell", shell, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert files_below(tmp_path) == {name for name in (SCRIPTS[shell], start_file) if name}
    assert f"rm {tmp_path / SCRIPTS[shell]}" in done.stdout
    if start_file:
        added = set((tmp_path / start_file).read_text().splitlines()) - {"mine=1"}
        told = {line.partition(": ")[2] for line in done.stdout.splitlines() if "added to" in line}
        assert added == told and len(added) == 2
    # a second time nothing more is added
    before = {name: (tmp_path / name).read_bytes() for name in files_below(tmp_path)}
    again = install(tmp_path, "--shell", shell, "--yes")
    assert again.returncode == 0 and "added to" not in again.stdout
    assert before == {name: (tmp_path / name).read_bytes() for name in files_below(tmp_path)}


def test_a_script_of_somebody_else_stays(tmp_path: Path) -> None:
    script = tmp_path / SCRIPTS["bash"]
    script.parent.mkdir(parents=True)
    script.write_text("# mine\n")
    done = install(tmp_path, "--shell", "bash", "--yes")
    assert done.returncode == 1
    assert script.read_text() == "# mine\n"


@pytest.mark.parametrize(("answer", "is_written"), [("y\n", True), ("\n", False)])
def test_a_terminal_is_asked(tmp_path: Path, answer: str, is_written: bool) -> None:
    command = [str(COMMAND), "--install-completion", "--shell", "fish"]
    with Terminal(command, environment=environment(tmp_path)) as terminal:
        terminal.expect("[y/N]")
        terminal.type(answer)
        assert terminal.wait() == (0 if is_written else 1)
    assert (SCRIPTS["fish"] in files_below(tmp_path)) == is_written


COMPLETE = """
source "$1"
COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); COMP_LINE="${*:2}"; COMP_POINT=${#COMP_LINE}
handler="$(complete -p ramledger | sed -E 's/.*-F ([^ ]+).*/\\1/')"
"$handler" ramledger "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(home: Path, *words: str) -> set[str]:
    """What bash offers for a command line, by the script that was installed."""
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", str(home / SCRIPTS["bash"]), *words],
        capture_output=True, text=True, env=environment(home), cwd=home, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {line.strip() for line in done.stdout.splitlines()}


def test_bash_completes_verbs_options_and_choices(tmp_path: Path) -> None:
    assert install(tmp_path, "--shell", "bash", "--yes").returncode == 0
    assert completed(tmp_path, "ramledger", "di") == {"diagnose"}
    assert {"explain", "run", "watch", "replay"} <= completed(tmp_path, "ramledger", "")
    assert completed(tmp_path, "ramledger", "explain", "--ma") == {"--match"}
    assert completed(tmp_path, "ramledger", "diagnose", "--format", "m") == {"markdown"}
    assert {"inspect", "verify"} <= completed(tmp_path, "ramledger", "replay", "")
