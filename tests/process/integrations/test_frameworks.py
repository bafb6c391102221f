"""What is recognized of each framework with no change to its code; docs/frameworks.md says so."""

import json
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec

import pytest

from ramledger.phases.wrapped_functions import FRAMEWORK_METHODS
from ramledger.units import MIB
from tests.support.places import ROOT

PROGRAM = ROOT / "tests" / "programs" / "framework_buffers.py"
PAGE = ROOT / "docs" / "frameworks.md"
DATA_BYTES = 4_000 * 400 * 4  # observations stored, once
TABLE_BYTES = 1_600_000  # what the environment holds


@dataclass(frozen=True, slots=True)
class Seen:
    """What a snapshot shows of one framework."""

    title: str
    package: str
    least_bytes: int
    most_bytes: int
    reserved: str
    has_fill: bool = True
    own_network: bool = True


LAZY = (2 * DATA_BYTES, round(1.3 * 2 * DATA_BYTES))
WHOLE = (2 * DATA_BYTES * 10 // 4, round(1.05 * 2 * DATA_BYTES * 10 / 4))
LAZILY, AT_ONCE, AS_IT_GOES = "as it is touched", "at once", "as it goes"
SEEN = (
    Seen("Stable-Baselines3", "stable_baselines3", *LAZY, LAZILY),
    Seen("sb3-contrib", "sb3_contrib", *LAZY, LAZILY),
    Seen("RLlib", "ray", DATA_BYTES, round(1.3 * DATA_BYTES), AS_IT_GOES, own_network=False),
    Seen("TorchRL", "torchrl", *LAZY, LAZILY),
    Seen("Tianshou", "tianshou", *WHOLE, AT_ONCE),
    Seen("CleanRL", "cleanrl_utils", *LAZY, LAZILY, own_network=False),
    Seen("ElegantRL", "elegantrl", *LAZY, LAZILY, own_network=False),
    Seen("AgileRL", "agilerl", *WHOLE, AT_ONCE, own_network=False),
    Seen("cpprb", "cpprb", *WHOLE, AT_ONCE, has_fill=False, own_network=False),
)


@pytest.mark.parametrize("seen", SEEN, ids=lambda seen: seen.package)
def test_buffers_networks_optimizers_and_environments_are_recognized(seen: Seen) -> None:
    if find_spec(seen.package) is None:
        pytest.skip(f"{seen.package} is not installed")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), seen.package], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert seen.least_bytes <= found["replay"] <= seen.most_bytes
    assert found["replay_fill"] == (pytest.approx(0.4, abs=0.01) if seen.has_fill else None)
    assert 0.2 * MIB < found["networks"] < 2 * MIB
    assert 0.2 * MIB < found["optimizer"] < 2 * MIB
    assert TABLE_BYTES <= found["env"] < 1.2 * TABLE_BYTES


def test_the_table_in_the_documentation_is_this_one() -> None:
    assert "\n".join(_rows()) in PAGE.read_text()


def _rows() -> list[str]:
    rows = [
        "| framework | replay buffer | memory taken | fill | networks, optimizer, env | phases |",
        "|---|---|---|---|---|---|",
    ]
    for seen in SEEN:
        known = any(name.partition(".")[0] == seen.package for name in FRAMEWORK_METHODS)
        rows.append(
            f"| {seen.title} | bytes | {seen.reserved} | {'yes' if seen.has_fill else 'no'} "
            f"| {'yes' if seen.own_network else 'yes, PyTorch and Gymnasium'} "
            f"| {'its own' if known else 'found in the loop'} |"
        )
    return rows


if __name__ == "__main__":
    print("\n".join(_rows()))
