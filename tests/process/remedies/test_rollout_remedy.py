"""`--apply rollout`: the same parameters, bit for bit, without the copy of a rollout."""

from pathlib import Path

import pytest

from tests.process.remedies.test_replay_remedy import plainly, remedied


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("ppo-stack", "each frame is stored once, stacks of 4"),
        ("ppo-plain", "observations are not copied for updates"),
        ("ppo-dict", "observations are not copied for updates"),
    ],
)
def test_the_same_parameters(tmp_path: Path, kind: str, said: str) -> None:
    numbers, _, size = plainly(kind)
    found, remedies = remedied(tmp_path, kind, apply="rollout")
    assert (found[0], found[2]) == (numbers, size)
    assert said in remedies["applied"][0]["text"]
