"""The trainer's runs as plans: from a run's own task, and from its TOML file alone."""

from pathlib import Path

import pytest

import ramledger
from ramledger.errors import ConfigError
from ramledger.plan.make_plan import plan
from ramledger.train.planned_needs import plan_run
from ramledger.train.population import Population
from ramledger.train.tasks import make_task
from ramledger.trainer_config import checked, read_config


def test_its_networks_see_as_many_numbers_as_the_plan_says() -> None:
    for window in (1, 2, 3, 4, 7, 8, 60):
        config = checked({"population": 2, "trading": {"window": window, "steps": 5}})
        task = make_task(config)
        learning = config.learning
        population = Population(
            task.features, task.actions, agents=2, learners=2, learning=learning,
            agents_per_chunk=2, seed=0,
        )  # fmt: skip
        budget = plan_run(config, task)
        for name in ("actor", "critic_target"):
            row = budget.row(f"networks/{name}")
            assert row is not None
            assert row.span.expected == sum(t.nbytes for t in population.groups[name]), window


def test_the_file_alone_tells_as_much_as_the_run(tmp_path: Path) -> None:
    """`ramledger plan run.toml` imports neither the trainer nor torch, and says the same."""
    path = tmp_path / "run.toml"
    for text in (
        "generations = 3\nshared_batch = true\n[market]\nassets = 7\n[trading]\nwindow = 100\n",
        'env = "Pendulum-v1"\nupdates = 9\nlearners = 4\n[learning]\ntwin = true\nhidden = [32]\n',
    ):
        path.write_text(text)
        config = read_config(str(path), {})
        run, alone = plan_run(config, make_task(config)), plan(str(path))
        assert [row.to_dict() for row in alone.rows] == [row.to_dict() for row in run.rows]
        assert alone.training == run.training


def test_a_market_in_a_csv_file_is_measured_by_reading_it(tmp_path: Path) -> None:
    data = tmp_path / "market.csv"
    lines = [f"2020-01-{day:02d},{asset},1.5,7" for day in range(1, 29) for asset in "ABC"]
    data.write_text("\n".join(["date,asset,close,volume", *lines]))
    path = tmp_path / "run.toml"
    path.write_text(f'data = "{data}"\n[trading]\nwindow = 3\nsteps = 1\n')
    config = read_config(str(path), {})
    run, alone = plan_run(config, make_task(config)), plan(str(path))
    assert [row.to_dict() for row in alone.rows] == [row.to_dict() for row in run.rows]


def test_a_config_is_a_source_and_changes_are_what_the_task_says() -> None:
    config = checked({"env": "Nowhere-v0", "generations": 3, "population": 2})
    budget = ramledger.plan(
        config, observation="7", action="box:2", episode_length=10, machine={"ram": "1GiB"},
        imported_bytes=100_000_000,
    )  # fmt: skip
    assert budget.config["total_steps"] == 3 * 2 * 10
    assert budget.ram.limit_bytes == 1 << 30
    row = budget.row("imports/torch and framework")
    assert row is not None and row.span.expected == 100_000_000


def test_a_table_of_the_trainer_can_be_changed_in_part() -> None:
    budget = ramledger.plan(checked({"shared_batch": True}), trainer={"table_rows": 7})
    trainer = budget.config["trainer"]
    assert (trainer["table_rows"], trainer["is_windowed"], trainer["shared_batch"]) == (
        7,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("generation = 3\nupdates = 1", "unknown field `generation`"),
        ("updates = 0", "updates must be from 1 to 1,000,000,000, got 0"),
        ('updates = "many"', "updates: expected `int`, got `str`"),
        ("[learning]\nhidden = 64", "learning.hidden: expected `array`, got `int`"),
        ('data = "none.csv"', "cannot read none.csv"),
        ('env = "Nowhere-v0"\nupdates = 3', "'Nowhere-v0' is not among the known"),
    ],
)
def test_what_the_trainer_would_refuse_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        plan(str(path))
    assert said in caught.value.message
    assert caught.value.hint
