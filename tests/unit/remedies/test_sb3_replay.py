"""What the remedy for replay buffers refuses, and where it saves."""

import io
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stable_baselines3")
from stable_baselines3.common import buffers

from ramledger.remedies import sb3_replay
from ramledger.remedies.reporting import Report


def test_an_older_version_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    report = Report("replay")
    monkeypatch.setattr(report, "left", said.append)
    monkeypatch.setattr(sb3_replay, "version", lambda _: "1.8.0")
    sb3_replay._replace(buffers, "", report)
    assert "__new__" not in vars(buffers.ReplayBuffer)
    assert said == ["stable-baselines3 1.8.0 is older than 2.0: its buffers stay"]


def test_a_copy_of_the_buffers_alone_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """CleanRL's copy in a program that has no stable-baselines3."""

    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    said: list[str] = []
    report = Report("replay")
    monkeypatch.setattr(report, "left", said.append)
    monkeypatch.setattr(sb3_replay, "version", version)
    sb3_replay._replace(buffers, "", report)
    assert "__new__" not in vars(buffers.ReplayBuffer)
    assert said == ["stable-baselines3 is not installed: buffers stay as they are"]


def test_the_folder_is_beside_the_file(tmp_path: Path) -> None:
    target = tmp_path / "x.pkl"
    with target.open("wb") as file:
        given: list[Any] = [target, str(target), file, tmp_path / "x"]
        assert {sb3_replay._beside(one) for one in given} == {str(tmp_path / "x.replay")}
    assert sb3_replay._beside(io.BytesIO()) is None
