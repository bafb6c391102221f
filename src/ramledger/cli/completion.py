"""`ramledger --install-completion`: names of verbs, options and files by the tabulator key.

The script is cyclopts' own. Nothing is written before the user has agreed to the list of files.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal, get_args

from cyclopts import Parameter
from cyclopts.completion.detect import ShellDetectionError, detect_shell

from ramledger.cli.main import build_app
from ramledger.errors import ConfigError
from ramledger.ledger import printable
from ramledger.user_files import has_mark

Shell = Literal["bash", "zsh", "fish"]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]

# below the home folder: the script, and the file that a shell reads when it starts
_SCRIPTS: dict[str, str] = {
    "bash": ".local/share/bash-completion/completions/ramledger",
    "zsh": ".zsh/completions/_cyclopts_ramledger",
    "fish": ".config/fish/completions/ramledger.fish",
}
_START_FILES = {"bash": ".bashrc", "zsh": ".zshrc"}


def install(*, shell: Shell | None = None, yes: Flag = False) -> int:
    """Complete verbs, options and files in your shell; asks before it writes.

    Parameters
    ----------
    shell
        The shell; by default the one that you use.
    yes
        Write without asking.
    """
    name = shell or _used_shell()
    script, start_file = _places(name)
    if script.exists() and not has_mark(str(script), b"yclopts", within_bytes=1 << 16):
        raise ConfigError(f"{script} exists already and is not ours", hint="move it away")
    print(f"For {name} this would be written:")
    print(f"  {printable(str(script))}: the completions")
    if start_file is not None:
        print(f"  {printable(str(start_file))}: two lines that load them, where they are missing")
    if not yes and not _agreed():
        raise ConfigError("nothing was written", hint="answer y, or give --yes")
    before = _lines_of(start_file)
    try:
        build_app().install_completion(shell=name, output=script)
    except OSError as error:
        raise ConfigError(f"cannot write: {error}", hint="is your home folder yours?") from None
    _say_what_was_done(script, start_file, [x for x in _lines_of(start_file) if x not in before])
    return 0


def _places(shell: Shell) -> tuple[Path, Path | None]:
    """Where the script goes, and the file that is to load it; None where it is found anyway."""
    custom = os.environ.get("ZSH_CUSTOM") or os.path.join(os.environ.get("ZSH", ""), "custom")
    if shell == "zsh" and os.path.isdir(os.path.dirname(custom)):  # oh-my-zsh
        return Path(custom, "completions", "_cyclopts_ramledger"), None
    start_file = _START_FILES.get(shell)
    return Path.home() / _SCRIPTS[shell], Path.home() / start_file if start_file else None


def _used_shell() -> Shell:
    try:
        found = detect_shell()
    except ShellDetectionError:
        found = None
    if found == "bash" or found == "zsh" or found == "fish":
        return found
    raise ConfigError("your shell is not known", hint=f"--shell {', '.join(get_args(Shell))}")


def _agreed() -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    print("Write it? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _lines_of(path: Path | None) -> list[str]:
    try:
        return [] if path is None else path.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []


def _say_what_was_done(script: Path, start_file: Path | None, added: list[str]) -> None:
    print(f"written: {printable(str(script))}")
    for line in added:
        print(f"added to {printable(str(start_file))}: {printable(line)}")
    print("It works in the next shell that you start; zsh needs compinit, which most set-ups have.")
    undo = f"to undo it: rm {printable(str(script))}"
    print(f"{undo}, and delete the lines that were added" if added else undo)
