"""Makes docs/statement.svg and the statement in README.md from a real run of train_dqn.py.

`python -m examples.statement_picture`: trains for a minute or so, then asks once. Needs ale-py.
"""

import io
import re
from pathlib import Path

from examples.demo import reach, training
from rich.console import Console

from ramledger.account.explain import explain_process
from ramledger.diagnose.advice import advise
from ramledger.diagnose.remarks import remarks
from ramledger.ledger import Statement
from ramledger.report.terminal import print_statement

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "statement.svg"
README = ROOT / "README.md"
STEPS, TOP, WIDTH = 2_500, 9, 100
FONTS = "DejaVu Sans Mono, Menlo, Consolas"
BLOCK = re.compile(r"(?<=<!-- statement -->\n)```text\n.*?```\n", re.S)


def main() -> None:
    with training(agent=True) as process:
        reach(process, STEPS)
        statement = explain_process(process.pid)
    PICTURE.write_text(as_svg(statement), encoding="utf-8")
    readme = README.read_text(encoding="utf-8")
    block = f"```text\n{as_text(statement)}```\n"
    README.write_text(BLOCK.sub(lambda _: block, readme), encoding="utf-8")


def as_svg(statement: Statement) -> str:
    console = Console(file=io.StringIO(), record=True, width=WIDTH, force_terminal=True)
    show(statement, console)
    svg = console.export_svg(title=f"ramledger explain {statement.pid}")
    # a picture in a page loads no fonts from elsewhere
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.S)
    return svg.replace("Fira Code", FONTS)


def as_text(statement: Statement) -> str:
    stream = io.StringIO()
    show(statement, Console(file=stream, width=WIDTH))
    return stream.getvalue()


def show(statement: Statement, console: Console) -> None:
    advice = advise(statement)
    print_statement(statement, advice, remarks(statement), top=TOP, console=console)


if __name__ == "__main__":
    main()
