"""Makes docs/report.png and docs/report-phone.png from a real run of leaky_population.py.

`python -m examples.report_picture`: trains for a minute or so. Needs Chromium.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.chromium import Page, open_page

ROOT = Path(__file__).parents[1]
PROGRAM = Path(__file__).with_name("leaky_population.py")
RAMLEDGER = [sys.executable, "-m", "ramledger"]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(PROGRAM.read_text(encoding="utf-8"))
        command = [*RAMLEDGER, "run", "--quiet", "--limit", "800MiB", "--out", "train.ledger.jsonl"]
        command += ["--expect", "TradingEnvironment=4", "--", sys.executable, "train.py"]
        subprocess.run(command, cwd=folder, check=True)
        subprocess.run([*RAMLEDGER, "report", "train.ledger.jsonl"], cwd=folder, check=True)
        page = folder / "train.html"
        # the interpreter's path is of no interest
        text = page.read_text(encoding="utf-8").replace(sys.executable, "python")
        page.write_text(text, encoding="utf-8")
        with open_page() as tab:
            tab.call("Emulation.setScrollbarsHidden", hidden=True)
            picture(tab, page, 1280, 1180, ROOT / "docs" / "report.png")
            picture(tab, page, 390, 1240, ROOT / "docs" / "report-phone.png")


def picture(tab: Page, page: Path, width: int, height: int, out: Path) -> None:
    tab.resize(width, height)
    tab.open(page.as_uri())
    tab.screenshot(out)


if __name__ == "__main__":
    main()
