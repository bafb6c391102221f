"""Makes docs/report*.png, light and dark, wide and for a phone, from a run of leaky_population.py.

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
            for dark in (False, True):
                picture(tab, page, 1280, 1460, "report", dark=dark)
                picture(tab, page, 390, 1760, "report-phone", dark=dark)


def picture(tab: Page, page: Path, width: int, height: int, name: str, *, dark: bool) -> None:
    tab.resize(width, height, dark=dark)
    tab.open(page.as_uri())
    tab.screenshot(ROOT / "docs" / f"{name}{'-dark' if dark else ''}.png")


if __name__ == "__main__":
    main()
