"""Makes docs/statement.svg and the statement in README.md from a real run of train_dqn.py.

`python -m examples.statement_picture`: trains for a minute or so, then asks once. Needs ale-py.
"""

import io
import re
from pathlib import Path

from examples.running_training import reach, training
from rich.console import Console

from ramledger.diagnose.advice import advise
from ramledger.diagnose.remarks import remarks
from ramledger.ledger import Statement
from ramledger.recorder.live_statement import explain_process
from ramledger.report.terminal.statement_picture import WIDTH, statement_svg
from ramledger.report.terminal.statement_text import print_statement

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "statement.svg"
README = ROOT / "README.md"
STEPS, TOP = 2_500, 9
BLOCK = re.compile(r"(?<=<!-- statement -->\n)```text\n.*?```\n", re.S)


def main() -> None:
    with training() as process:
        reach(process, STEPS)
        statement = explain_process(process.pid)
    PICTURE.write_text(as_svg(statement), encoding="utf-8")
    readme = README.read_text(encoding="utf-8")
    block = f"```text\n{as_text(statement)}```\n"
    README.write_text(BLOCK.sub(lambda _: block, readme), encoding="utf-8")


def as_svg(statement: Statement) -> str:
    return statement_svg(statement, advise(statement), remarks(statement), top=TOP)


def as_text(statement: Statement) -> str:
    stream = io.StringIO()
    show(statement, Console(file=stream, width=WIDTH))
    return stream.getvalue()


def show(statement: Statement, console: Console) -> None:
    advice = advise(statement)
    print_statement(statement, advice, remarks(statement), top=TOP, console=console)


if __name__ == "__main__":
    main()
