"""Budgets: rows, phases, the peak, verdicts, recommendations by re-planning, the solver, diffs."""

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest

import ramledger
from ramledger.plan.baseline import shipped_baseline
from ramledger.plan.budget import Budget, Severity, Where, row_changes
from ramledger.plan.largest_fit import largest
from ramledger.plan.make_plan import plan
from ramledger.plan.plan_config import FIELDS, config_from, json_schema
from ramledger.plan.predict import Setting
from ramledger.units import GIB, MIB
from tests.support.places import ROOT

SETTING = Setting(shipped_baseline())
# report 002: PPO on a Game Boy emulator
GAME_BOY: dict[str, Any] = {
    "algorithm": "PPO", "policy": "CnnPolicy", "observation": "144x160x3:uint8",
    "action": "discrete:7", "frame_stack": 4, "n_envs": 2, "n_steps": 8192, "batch_size": 2048,
    "n_epochs": 10, "total_steps": 10_000_000, "device": "cuda",
    "callbacks": {"checkpoint_every": 81_920, "save_replay_buffer": True},
    "machine": {"ram": "32GiB", "vram": "16GiB", "cores": 8},
}  # fmt: skip
PONG: dict[str, Any] = {
    "algorithm": "DQN", "env": "PongNoFrameskip-v4", "policy": "CnnPolicy", "frame_stack": 4,
    "buffer_size": 100_000, "total_steps": 1_000_000, "machine": {"ram": "8GiB", "cores": 4},
}  # fmt: skip


def ids(budget: Budget) -> set[str]:
    return {check.id for check in budget.checks}


def test_the_game_boy_is_counted_once_and_its_copy_is_seen() -> None:
    budget = plan(GAME_BOY, setting=SETTING)
    stored = 16_384 * 144 * 160 * 12
    row = budget.row("rollout/observations")
    assert row is not None
    assert row.span.expected == stored
    assert [r.account for r in budget.rows if r.span.expected == stored] == [row.account]
    assert budget.peak_phase == "flatten"
    assert budget.main.expected > 2 * stored
    assert budget.verdict == "fits"
    training = budget.training
    assert (training.steps_per_iteration, training.batches_per_epoch) == (16_384, 8)
    assert (training.updates_per_iteration, training.iterations) == (80, 611)
    assert training.checkpoints == 10_000_000 // 2 // 81_920


def test_the_game_boy_s_batch_is_sound_and_its_replay_buffer_does_not_exist() -> None:
    found = ids(plan(GAME_BOY, setting=SETTING))
    assert not {name for name in found if name.startswith("batch")}
    assert {"no-replay-buffer", "rollout-swap-copy", "frame-stack", "few-envs"} <= found
    assert "save-frequency" in found


def test_old_stable_baselines_stores_images_four_times_as_large() -> None:
    new = plan(GAME_BOY, setting=SETTING)
    old = plan(GAME_BOY | {"versions": {"stable_baselines3": "2.7.0"}}, setting=SETTING)
    sizes = [b.row("rollout/observations") for b in (new, old)]
    assert sizes[0] and sizes[1]
    assert sizes[1].span.expected == 4 * sizes[0].span.expected
    assert "rollout-float32" in ids(old)
    assert old.verdict == "does not fit"
    upgrade = [r for r in old.recommendations if "upgrade" in r.change]
    assert upgrade[0].saves_bytes == old.ram.needed.expected - new.ram.needed.expected


def test_a_rollout_with_its_remedy_in_force() -> None:
    budget = plan(GAME_BOY, setting=SETTING)
    advice = budget.recommendations[0]
    assert advice.apply == "rollout"
    applied = plan(GAME_BOY, setting=SETTING, apply=["rollout"])
    row = applied.row("rollout/observations")
    assert row is not None
    assert row.span.expected == 16_384 * 144 * 160 * 3
    assert applied.row("rollout/copy") is None
    assert advice.saves_bytes == budget.ram.needed.expected - applied.ram.needed.expected
    assert applied.ram.needed.expected <= 2.5 * GIB
    assert not {"rollout-swap-copy", "frame-stack"} & ids(applied)
    assert "rollout" not in {one.apply for one in applied.recommendations}
    # a stack of vectors is not found by looking
    vectors = GAME_BOY | {"observation": "300:float32", "policy": "MlpPolicy"}
    found = plan(vectors, setting=SETTING, apply=["rollout"]).row("rollout/observations")
    assert found is not None
    assert found.span.expected == 16_384 * 300 * 4 * 4


def test_one_environment_needs_no_copy() -> None:
    one = plan(GAME_BOY | {"n_envs": 1}, setting=SETTING)
    assert one.row("rollout/copy") is None
    assert "flatten" not in one.phases


@pytest.mark.parametrize("job", [GAME_BOY, PONG], ids=["game boy", "pong"])
def test_every_saving_is_the_difference_of_two_plans(job: dict[str, Any]) -> None:
    budget = plan(job, setting=SETTING)
    assert budget.recommendations
    for item in budget.recommendations:
        plain = msgspec.to_builtins(config_from(job)) | msgspec.to_builtins(dict(item.set))
        changed = plan(plain, setting=SETTING)
        saved = budget.ram.needed.expected - changed.ram.needed.expected
        saved += max(budget.vram.needed.expected - changed.vram.needed.expected, 0)
        assert item.saves_bytes == saved > 0


@pytest.mark.parametrize(
    ("job", "apply"),
    [
        (GAME_BOY, "rollout"),
        (GAME_BOY | {"frame_stack": 1}, "rollout"),
        (GAME_BOY | {"algorithm": "RecurrentPPO"}, "rollout"),
        (PONG, "replay"),
    ],
    ids=["frames", "copy", "recurrent", "replay"],
)
def test_what_a_remedy_does_is_one_of_the_changes(job: dict[str, Any], apply: str) -> None:
    budget = plan(job, setting=SETTING)
    (found,) = [item for item in budget.recommendations if item.apply == apply]
    assert "same numbers" in found.costs
    assert found.to_dict()["apply"] == apply
    by_hand = [item.to_dict()["apply"] for item in budget.recommendations if not item.apply]
    assert set(by_hand) <= {None}


def test_a_replay_buffer_that_does_not_fit() -> None:
    budget = plan(PONG, setting=SETTING)
    assert not plan(PONG | {"buffer_size": 1_000_000}, setting=SETTING).fits
    stored = sum(r.span.expected for r in budget.rows if "observations" in r.account)
    assert stored == 2 * 100_000 * 84 * 84 * 4
    assert {"replay-next-obs", "frame-stack"} <= ids(budget)
    once = plan(
        PONG | {"optimize_memory_usage": True, "handle_timeout_termination": False},
        setting=SETTING,
    )
    assert budget.ram.needed.expected - once.ram.needed.expected == stored // 2


def test_a_buffer_is_charged_as_far_as_the_steps_fill_it() -> None:
    full = plan(PONG | {"total_steps": 100_000}, setting=SETTING)
    tenth = plan(PONG | {"total_steps": 10_000}, setting=SETTING)
    rows = [b.row("replay/observations") for b in (full, tenth)]
    assert rows[0] and rows[1]
    assert rows[1].reserved_bytes == rows[0].span.expected
    assert 0 <= rows[1].span.expected - rows[0].span.expected // 10 <= 2 * MIB
    assert "buffer-never-full" in ids(tenth)
    assert tenth.training.steps_until_full is None
    assert full.training.steps_until_full == 100_000


def test_phases_grow_and_the_peak_is_the_largest() -> None:
    budget = plan(PONG, setting=SETTING)
    spans = budget.phases
    assert (
        spans["import"].expected
        < spans["start"].expected
        < spans["filled"].expected
        < spans["update"].expected
    )
    assert budget.main == max(spans.values(), key=lambda span: span.expected)
    for span in (*spans.values(), *(row.span for row in budget.rows)):
        assert 0 <= span.low <= span.expected <= span.high


@pytest.mark.parametrize(
    ("field", "job"),
    [("buffer_size", PONG), ("n_envs", GAME_BOY), ("batch_size", GAME_BOY), ("n_steps", GAME_BOY)],
)
def test_the_solver_finds_the_largest_that_fits(field: str, job: dict[str, Any]) -> None:
    config = config_from({k: v for k, v in job.items() if k != "total_steps"})
    found = largest(config, field, SETTING)
    assert found is not None
    here = plan(msgspec.structs.replace(config, **{field: found}), setting=SETTING)
    assert here.verdict == "fits"
    step = 2 * found if field == "batch_size" else found + max(found // 9, 1)
    if field != "batch_size" or step <= 16_384:
        beyond = plan(msgspec.structs.replace(config, **{field: step}), setting=SETTING)
        assert beyond.verdict != "fits"


def test_nothing_fits_into_nothing() -> None:
    config = config_from(PONG | {"machine": {"ram": "100MiB"}})
    assert largest(config, "buffer_size", SETTING) is None


def test_workers_cost_by_their_start_method() -> None:
    sizes = {}
    for method in ("fork", "forkserver", "forkserver-preload", "spawn"):
        job = GAME_BOY | {"n_envs": 8, "vec_env": "subproc", "start_method": method}
        budget = plan(job, setting=SETTING)
        sizes[method] = sum(row.span.expected for row in budget.rows_in(Where.WORKERS))
        assert ("subproc-start-method" in ids(budget)) is (method in ("forkserver", "spawn"))
    assert sizes["fork"] < sizes["forkserver-preload"] < GIB < sizes["spawn"]
    assert sizes["forkserver"] == sizes["spawn"]


@pytest.mark.parametrize(
    ("changes", "wanted", "severity"),
    [
        ({"batch_size": 99_999}, "batch-larger-than-buffer", Severity.ERROR),
        ({"batch_size": 1000}, "batch-not-dividing", Severity.WARNING),
        ({"total_steps": 100}, "less-than-one-rollout", Severity.WARNING),
        ({"torch_threads": 53}, "thread-oversubscription", Severity.WARNING),
        ({"episode_length": 20_000}, "episode-longer-than-rollout", Severity.NOTE),
        ({"episode_length": 300}, "rollout-longer-than-episodes", Severity.NOTE),
        ({"callbacks": {"checkpoint_every": 9_000_000}}, "never-saves", Severity.WARNING),
        ({"machine": {"ram": "32GiB", "cores": 8}}, "vram-unknown", Severity.NOTE),
    ],
)
def test_checks_of_a_rollout(changes: dict[str, Any], wanted: str, severity: Severity) -> None:
    assert wanted not in ids(plan(GAME_BOY, setting=SETTING))
    budget = plan(GAME_BOY | changes, setting=SETTING)
    (check,) = [check for check in budget.checks if check.id == wanted]
    assert check.severity is severity
    assert check.message and check.fix and check.where


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"batch_size": 200_000}, "batch-larger-than-buffer"),
        ({"learning_starts": 2_000_000}, "never-learns"),
        ({"optimize_memory_usage": True}, "replay-options-contradict"),
        ({"callbacks": {"save_replay_buffer": True}}, "save-replay-cost"),
        ({"framework": "elegantrl", "n_envs": 4}, "elegantrl-buffer"),
    ],
)
def test_checks_of_replay(changes: dict[str, Any], wanted: str) -> None:
    assert wanted not in ids(plan(PONG, setting=SETTING))
    assert wanted in ids(plan(PONG | changes, setting=SETTING))


def test_resuming_with_a_saved_buffer_needs_a_second_one() -> None:
    budget = plan(PONG | {"callbacks": {"save_replay_buffer": True}}, setting=SETTING)
    disk = budget.row("checkpoint/replay")
    assert disk is not None
    assert disk.span.expected == 100_000 * (2 * 84 * 84 * 4 + 8 + 12)
    assert budget.phases["resume"].expected > disk.span.expected


def test_a_difference_adds_up() -> None:
    before, after = (plan(PONG | {"buffer_size": n}, setting=SETTING) for n in (100_000, 50_000))
    found = row_changes(before, after)
    assert {change.account for change in found} >= {"replay/observations", "replay/rewards"}
    total = sum(change.delta_bytes for change in found)
    assert total == after.ram.needed.expected - before.ram.needed.expected


def test_the_budget_is_one_json_document() -> None:
    document = json.loads(json.dumps(plan(GAME_BOY, setting=SETTING).to_dict()))
    assert document["schema"] == "ramledger.plan/1"
    assert {"fits", "ram", "vram", "accounts", "peak_bytes", "training", "checks",
            "recommendations"} <= set(document)  # fmt: skip
    assert {"account", "bytes", "formula", "when"} <= set(document["accounts"][0])
    again = plan(document["config"], setting=SETTING)
    assert again.ram == plan(GAME_BOY, setting=SETTING).ram


def test_the_schema_in_the_docs_is_ours() -> None:
    written = json.loads((ROOT / "docs" / "plan.schema.json").read_text(encoding="utf-8"))
    assert written == json_schema()


def test_every_field_is_described() -> None:
    page = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
    assert not [name for name in FIELDS if f"`{name}`" not in page]


FRESH = """
import json, sys, time
begin = time.process_time()
import ramledger.plan.budget
import ramledger
budget = ramledger.plan(json.loads(sys.argv[1]))
print(json.dumps([time.process_time() - begin, budget.fits, sorted(sys.modules)]))
"""


def test_a_plan_is_quick_and_imports_no_torch() -> None:
    command = [sys.executable, "-c", FRESH, json.dumps(GAME_BOY)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, fits, modules = json.loads(done.stdout)
    assert fits
    assert not {"torch", "numpy", "stable_baselines3", "yaml"} & set(modules)
    assert seconds < 1.5  # of processor time; a third of a second where nothing else runs


def test_the_package_is_the_function_in_any_order() -> None:
    assert callable(ramledger.plan)
    program = "from ramledger import plan; print(plan({'env': 'CartPole-v1'}).verdict)"
    for first in ("", "import ramledger.plan.budget; ", "import ramledger; ramledger.plan; "):
        done = subprocess.run([sys.executable, "-c", first + program], capture_output=True)
        assert done.stdout.strip() in (b"fits", b"tight"), done.stderr
