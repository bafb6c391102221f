"""`ramledger.record()` as a user writes it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import ramledger
from ramledger.api import Ledger
from ramledger.errors import ConfigError
from ramledger.events import RemoteProcessEvent
from ramledger.recording import Recording
from ramledger.units import MIB
from tests.support.untouched_array import untouched_array


class Replay:
    """A user's buffer."""

    def __init__(self) -> None:
        self.observations = untouched_array(32 * MIB)
        self.pos, self.buffer_size, self.full = 1, 4, False


@pytest.fixture
def ledger() -> Ledger:
    return ramledger.record()


def test_claims_snapshots_and_growth(ledger: Ledger) -> None:
    replay = Replay()
    ledger.claim("my replay", replay)
    before = ledger.snapshot("before")
    replay.observations[: 16 * MIB] = 1
    growth = ledger.growth(since="before")
    changes = {change.account: change.growth_bytes for change in growth.changes}
    # a huge page more is possible
    assert changes["my replay/observations"] == pytest.approx(16 * MIB, rel=0.15)
    assert sum(changes.values()) == growth.rss_growth_bytes
    entry = before.get("my replay/observations")
    assert entry is not None and entry.fill == 0.25
    assert "my replay/observations" in str(growth)
    ledger.release("my replay")
    assert ledger.snapshot().get("my replay/observations") is None


def test_a_statement_prints_in_a_log_and_a_notebook(
    ledger: Ledger,
) -> None:
    statement = ledger.snapshot("here")
    text = str(statement)
    assert text.splitlines()[0].startswith("here: ")
    assert "unexplained" in text and "RSS" in text
    assert "<table" in statement._repr_html_()


def test_an_unknown_label_says_which_exist(
    ledger: Ledger,
) -> None:
    ledger.snapshot("start")
    with pytest.raises(ConfigError) as caught:
        ledger.growth(since="begin")
    assert "'start'" in caught.value.hint


def test_without_objects_claims_are_still_known(
    ledger: Ledger,
) -> None:
    replay = Replay()
    ledger.claim("mine", replay)
    statement = ledger.snapshot(objects=False)
    assert statement.get("mine/observations") is not None
    assert not statement.types


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(ConfigError):
        ramledger.record(large_object="10 GBB")


def test_the_large_object_threshold_is_the_users() -> None:
    code = (
        "import ramledger, numpy as np\n"
        "a = np.ones(3_000_000, np.uint8)\n"
        "print(len(ramledger.record().snapshot().large_objects),"
        " len(ramledger.record(large_object='1 MB').snapshot().large_objects))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.split() == ["0", "1"], result.stderr


def test_what_is_held_elsewhere_is_recorded(tmp_path: Path) -> None:
    code = "import ramledger; ledger = ramledger.record('run.ledger.jsonl')\n"
    code += "ledger.elsewhere('shard 0', {'node': 'b', 'pid': 7, 'pss_bytes': 5, 'accounts': []})"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=100)
    recording = Recording.read(str(tmp_path / "run.ledger.jsonl"))
    (event,) = recording.of_type(RemoteProcessEvent)
    assert replace(event, t=0.0) == RemoteProcessEvent(
        t=0.0, name="shard 0", node="b", pid=7, pss_bytes=5
    )


def test_elsewhere_without_a_recording_is_nothing(ledger: Ledger) -> None:
    ledger.elsewhere("shard 0", {})
