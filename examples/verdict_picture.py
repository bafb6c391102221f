"""Makes docs/verdict.svg: the summary of a run of the quickstart's train.py, as in a terminal.

`python -m examples.verdict_picture`: trains for half a minute.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from ramledger.cli.quickstart import quickstart
from ramledger.diagnose.verdict import diagnose
from ramledger.report.terminal.run_summary import print_summary
from ramledger.report.terminal.statement_picture import console_picture, picture_console
from ramledger.run.model import Run

PICTURE = Path(__file__).parents[1] / "docs" / "verdict.svg"
WIDTH = 84


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        quickstart(name)
        command = [sys.executable, "-m", "ramledger", "run", "--quiet", "--out", "r.ledger.jsonl"]
        subprocess.run([*command, "--", sys.executable, "train.py"], cwd=folder, check=True)
        run = Run.read(str(folder / "r.ledger.jsonl"))
    console = picture_console(WIDTH)
    console.print("$ ramledger run -- python train.py", style="bold")
    console.print()
    print_summary(run, console, diagnose(run))
    PICTURE.write_text(console_picture(console, "ramledger run"), encoding="utf-8")


if __name__ == "__main__":
    main()
