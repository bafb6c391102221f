"""A buffer is in the ledger by itself: an account for every field, with its fill."""

import subprocess
import sys

from tests.support.places import ROOT

PROGRAM = """
import json
import numpy as np
import ramledger
from ramledger.replay import Field, Folder, Frames, ReplayBuffer, Schema

ledger = ramledger.record()

class Trainer:
    def __init__(self):
        schema = Schema(Frames((84, 84), "uint8", 4), action=Field((200,)))
        self.memory = ReplayBuffer(schema, 4000)

trainer = Trainer()
action = np.ones(200, np.float32)
frames = np.random.default_rng(0).integers(0, 256, (1005, 84, 84), dtype=np.uint8)
windows = np.lib.stride_tricks.sliding_window_view(frames, 4, axis=0).transpose(0, 3, 1, 2)
for at in range(1000):
    trainer.memory.add(windows[at], action, 0.0, windows[at + 1], False)
print(json.dumps(ledger.snapshot("filled").to_dict()))
"""


def test_every_field_has_an_account_with_its_fill() -> None:
    import json

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120,
        cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    statement = json.loads(done.stdout)
    accounts = {row["account"]: row for row in statement["accounts"]}
    frames, actions = accounts["replay/obs"], accounts["replay/action"]
    assert frames["fill"] == actions["fill"] == 0.25
    # 1000 frames of 84 × 84 and the three before the first; pages of 2 MiB
    assert 1003 * 84 * 84 <= frames["resident_bytes"] <= 1003 * 84 * 84 + (4 << 20)
    # two rows are reserved for each of the 4000 transitions
    assert frames["reserved_bytes"] >= 8000 * 84 * 84
    assert 800_000 <= actions["resident_bytes"] <= 800_000 + (4 << 20)
    total = sum(row["resident_bytes"] for row in statement["accounts"])
    assert total + statement["unexplained_bytes"] == statement["rss_bytes"]
