"""`ramledger quickstart FOLDER`: the files of the quickstart, and what to do with them."""

import os
from typing import Annotated

from cyclopts import Parameter

from ramledger.errors import ConfigError
from ramledger.user_files import write_whole

FILES = ("train.py", "train_fixed.py", "dqn_atari.toml")
_SOURCE = os.path.join(os.path.dirname(__file__), "quickstart_files")
_HINT = "choose an empty folder, or give --force to replace the files"

STEPS = """\
$ cd {folder}
$ ramledger plan dqn_atari.toml --ram 32GiB
      a config that does not fit, and what to change
$ ramledger run --out before.ledger.jsonl -- python train.py
      a training with a leak, half a minute: the verdict and its line of code
$ ramledger report before.ledger.jsonl
      the page of that run: before.html
$ ramledger run --out after.ledger.jsonl -- python train_fixed.py
      the same training with one line changed
$ ramledger diagnose after.ledger.jsonl --compare before.ledger.jsonl
      fixed or not
"""


def quickstart(
    folder: Annotated[str, Parameter(metavar="FOLDER")] = "ramledger-quickstart",
    /,
    *,
    force: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Write a small training with a leak, the same without it, and a config that does not fit.

    Parameters
    ----------
    folder
        Where to write them; it is made if it is not there.
    force
        Overwrite files of these names.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot make {folder}: {reason}", hint="choose another folder") from None
    for name in FILES:
        with open(os.path.join(_SOURCE, name), "rb") as file:
            content = file.read()
        path = os.path.join(folder, name)
        write_whole(path, content, force=force, error=ConfigError, hint=_HINT)
        print(f"wrote {path}")
    print()
    print(STEPS.format(folder=folder), end="")
