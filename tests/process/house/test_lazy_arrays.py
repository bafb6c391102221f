"""What docs/concepts.md says of arrays that are made and not yet written, measured."""

import json
import re
import subprocess
import sys

from tests.support.places import ROOT

SIZE_BYTES = 256 * 1024 * 1024
CALLS = {
    "np.zeros": "np.zeros(n, np.uint8)",
    "np.empty": "np.empty(n, np.uint8)",
    "np.ones": "np.ones(n, np.uint8)",
    "np.full": "np.full(n, 0, np.uint8)",
    "np.zeros_like": "np.zeros_like(np.empty(n, np.uint8))",
    "torch.empty": "torch.empty(n, dtype=torch.uint8)",
    "torch.zeros": "torch.zeros(n, dtype=torch.uint8)",
    "torch.zeros_like": "torch.zeros_like(torch.empty(n, dtype=torch.uint8))",
    "torch.from_numpy(np.zeros(…))": "torch.from_numpy(np.zeros(n, np.uint8))",
}
MEASURE = """
import json, sys
import numpy as np
import torch

def resident():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Rss:"))

n, grown = int(sys.argv[1]), {}
for name, text in json.loads(sys.argv[2]).items():
    eval(text, {"np": np, "torch": torch, "n": 1})  # what the first call loads
    before = resident()
    array = eval(text, {"np": np, "torch": torch, "n": n})
    grown[name] = resident() - before
    del array
print(json.dumps(grown))
"""


def test_which_calls_make_their_memory_resident() -> None:
    page = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    table = page.partition("| resident right after it |")[2].partition("\n\n")[0]
    lazy, eager = (re.findall(r"`([^`]+)`", row) for row in table.strip().splitlines()[1:])
    assert sorted(lazy + eager) == sorted(CALLS)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(SIZE_BYTES), json.dumps(CALLS)],
        capture_output=True, text=True, check=True, timeout=200,
    )  # fmt: skip
    shares = {name: grown / SIZE_BYTES for name, grown in json.loads(done.stdout).items()}
    assert all(shares[name] < 0.1 for name in lazy), shares
    assert all(shares[name] > 0.9 for name in eager), shares
