"""Runs are deterministic, stop without loss, and go on bit-identically."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ramledger.errors import CheckpointError, ConfigError
from ramledger.train import checkpoint
from ramledger.train.evaluation import compare, other_task
from ramledger.train.planned_needs import plan_run
from ramledger.train.tasks import TradingTask
from ramledger.train.trainer import Listener, Trainer
from tests.support.small_trainings import new_trainer, resumed, same

pytestmark = pytest.mark.xdist_group("trainer")


class StopAt(Listener):
    """Asks a run to stop at one point of it."""

    def __init__(self, phase: str, generation: int, update: int = 0) -> None:
        self.at = (phase, generation, update)

    def begin(self, trainer: Trainer, phase: str) -> None:
        if (phase, trainer.generation, 0) == self.at:
            trainer.stop("asked")

    def advance(self, trainer: Trainer, done: int, of: int) -> None:
        if ("train", trainer.generation, done) == self.at:
            trainer.stop("asked")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    trainer = new_trainer(tmp_path_factory.mktemp("whole"))
    assert trainer.run() == "finished"
    return trainer


def test_the_same_seed_is_the_same_run(whole: Trainer, tmp_path: Path) -> None:
    again = new_trainer(tmp_path)
    again.run()
    same(whole, again)
    other = new_trainer(tmp_path / "other", seed=6, generations=1)
    other.run()
    assert other.history[0]["best"] != whole.history[0]["best"]


def test_the_buffer_wraps_and_the_history_is_whole(whole: Trainer) -> None:
    assert whole.buffer.total_added == 6 * 4 * 2 * 40 > whole.buffer.capacity
    assert [row["generation"] for row in whole.history] == list(range(6))
    assert whole.best_score == max(row["validation"] for row in whole.history)


@pytest.mark.parametrize(
    ("phase", "generation", "update"),
    [("evaluate", 3, 0), ("train", 2, 0), ("train", 2, 4), ("evolve", 1, 0)],
)
def test_stopped_anywhere_it_goes_on_as_if_it_had_not(
    whole: Trainer, tmp_path: Path, phase: str, generation: int, update: int
) -> None:
    first = new_trainer(tmp_path)
    first.listener = StopAt(phase, generation, update)
    assert first.run() == "asked"
    second = resumed(tmp_path)
    same(first, second)
    assert second.run() == "finished"
    same(whole, second)


def test_three_generations_and_three_more_are_six(whole: Trainer, tmp_path: Path) -> None:
    new_trainer(tmp_path, generations=3).run()
    later = resumed(tmp_path, generations=6)
    assert later.generation == 3
    later.run()
    same(whole, later)


def test_a_damaged_newest_save_of_the_buffer_costs_one_generation(
    whole: Trainer, tmp_path: Path
) -> None:
    new_trainer(tmp_path, generations=3).run()
    newest = max((tmp_path / "replay").glob("save-*.json"))
    newest.write_bytes(newest.read_bytes()[:-20])
    later = resumed(tmp_path, generations=6)
    assert later.generation == 2
    later.run()
    same(whole, later)


def test_a_damaged_newest_state_costs_one_generation(whole: Trainer, tmp_path: Path) -> None:
    new_trainer(tmp_path, generations=3).run()
    path = checkpoint.path_of(tmp_path, 3)
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    later = resumed(tmp_path, generations=6)
    assert later.generation == 2
    assert "damaged at actor.0" in later.lost[0]
    later.run()
    same(whole, later)
    same(whole, resumed(tmp_path))


def test_a_damaged_tensor_is_noticed(tmp_path: Path) -> None:
    new_trainer(tmp_path, generations=1).run()
    path = checkpoint.path_of(tmp_path, 1)
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"damaged at actor\.0"):
        resumed(tmp_path)
    path.write_bytes(data[:500])
    with pytest.raises(CheckpointError, match="its index is damaged"):
        resumed(tmp_path)


def test_only_so_many_checkpoints_are_kept(whole: Trainer) -> None:
    assert len(checkpoint.numbers_in(whole.folder)) == whole.config.keep + 1
    assert len(list((whole.folder / "replay").glob("save-*.json"))) == whole.config.keep


def test_other_settings_are_refused_on_resume(whole: Trainer) -> None:
    with pytest.raises(ConfigError, match="population = 4, not 8"):
        resumed(whole.folder, population=8)


def test_no_pickle_is_written(whole: Trainer) -> None:
    for path in whole.folder.rglob("*"):
        if path.is_file():
            assert not path.read_bytes().startswith((b"\x80\x04", b"\x80\x05", b"PK"))


def test_some_learners_among_an_evolving_population(tmp_path: Path) -> None:
    one = new_trainer(tmp_path / "a", learners=1, generations=3)
    one.run()
    assert all(row["injected"] == 1 for row in one.history)
    two = new_trainer(tmp_path / "b", learners=1, generations=2)
    two.run()
    later = resumed(tmp_path / "b", generations=3)
    later.run()
    same(one, later)


@pytest.mark.parametrize(
    "changes",
    [
        {"exploration": {"noise": "parameter"}, "shared_batch": True},
        {"exploration": {"noise": "gaussian"}, "agents_per_chunk": 3},
        {"evolution": {"method": "proximal"}, "exploration": {"noise": "none"}},
        {"learning": {"hidden": [8], "batch": 8, "twin": True, "target_noise": 0.2}},
    ],
)
def test_every_way_to_run_repeats_itself(tmp_path: Path, changes: dict[str, Any]) -> None:
    trainers = [new_trainer(tmp_path / name, generations=2, **changes) for name in "ab"]
    for trainer in trainers:
        trainer.run()
    same(*trainers)


def test_gymnasium_environments_by_id(tmp_path: Path) -> None:
    changes = {"env": "Pendulum-v1", "generations": 2, "population": 2, "episodes": 1}
    one = new_trainer(tmp_path / "a", **changes)
    one.run()
    assert one.buffer.size == 2 * 2 * 200
    two = new_trainer(tmp_path / "b", **{**changes, "generations": 1})
    two.run()
    later = resumed(tmp_path / "b", generations=2)
    later.run()
    assert later.history == one.history
    assert {score.name for score in compare(one.task, one.population, episodes=2)} == {
        "best agent", "random"}  # fmt: skip


def test_images_through_ale(tmp_path: Path) -> None:
    pytest.importorskip("ale_py")
    changes = {"env": "ALE/Pong-v5", "generations": 2, "population": 2, "episodes": 1,
               "validation_episodes": 1, "episode_steps": 30}  # fmt: skip
    one = new_trainer(tmp_path / "a", **changes)
    one.run()
    assert one.buffer.size == 2 * 2 * 30
    found = one.buffer.sample(8)
    assert isinstance(found.obs, np.ndarray)
    # four gray frames of 210 × 160 in blocks of 7 × 7; one a step is stored
    assert found.obs.shape == (8, 4, 30, 22) and found.obs.dtype == np.uint8
    assert one.buffer.bytes_per_transition < 2 * 30 * 22
    assert one.task.features == 4 * 30 * 22
    assert 0 < one.task.encode(found.obs).max() <= 1
    two = new_trainer(tmp_path / "b", **{**changes, "generations": 1})
    two.run()
    later = resumed(tmp_path / "b", generations=2)
    later.run()
    assert later.history == one.history


def test_an_agent_is_judged_elsewhere(whole: Trainer, tmp_path: Path) -> None:
    other_assets = tmp_path / "market.csv"
    rows = [f"2020-{month:02}-{day:02},{asset},{100 + day + month},{day}"
            for month in range(1, 13) for day in range(1, 29) for asset in "ab"]  # fmt: skip
    other_assets.write_text("date,asset,close,volume\n" + "\n".join(rows) + "\n")
    with pytest.raises(ConfigError, match="the agent was trained with"):
        other_task(whole, None, str(other_assets))
    task = other_task(whole, "trading", None)
    assert len(compare(task, whole.population, episodes=2)) == 3


@pytest.mark.parametrize("name", ["CartPole-v1", "NoSuchThing-v0"])
def test_environments_that_cannot_be_used_are_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        new_trainer(tmp_path, env=name)


def test_windows_are_stored_by_position(whole: Trainer) -> None:
    window = 10 * 3 * 3 * 4
    assert whole.buffer.bytes_per_transition < window / 4
    found = whole.buffer.sample(4)
    assert isinstance(found.obs, dict)
    assert found.obs["market"].shape == (4, 10, 9)


def test_networks_see_the_same_from_positions_and_from_windows(whole: Trainer) -> None:
    task = whole.task
    assert isinstance(task, TradingTask)
    positions = np.asarray([9, 50, 200], np.int32)
    state = np.zeros((3, 5), np.float32)
    rows = task.tables["market"]
    windows = np.stack([rows[end - 9 : end + 1] for end in positions.tolist()])
    one = task.encode({"market": positions, "portfolio": state})
    two = task.encode({"market": windows, "portfolio": state})
    assert one.tobytes() == two.tobytes()
    # the last stretch is the newest row alone, the one before it the two rows before
    assert np.array_equal(one[0, -14:-5], rows[9])
    assert np.allclose(one[0, -23:-14], rows[7:9].mean(axis=0))
    assert np.allclose(one[0, :9], rows[:3].mean(axis=0))


def test_the_plan_of_a_run_is_what_it_holds(whole: Trainer) -> None:
    budget = plan_run(whole.config, whole.task)
    held = sum(tensor.nbytes for _, tensor in whole.population.tensors())
    planned = [r for r in budget.rows if r.account.startswith(("networks/", "optimizer"))]
    assert sum(row.span.expected for row in planned) == held
    replay = budget.row("replay")
    assert replay is not None
    size = replay.reserved_bytes or replay.span.expected
    # every environment's stream keeps a row more an episode
    assert 0.9 < whole.buffer.reserved_bytes / size < 2
    assert f"{whole.config.capacity:,} transitions" in replay.formula
