"""Any input at all: a budget or a ConfigError, and budgets whose numbers are in order."""

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ramledger.errors import ConfigError, RamledgerError
from ramledger.plan.frameworks.all_frameworks import FRAMEWORKS
from ramledger.plan.make_plan import plan
from ramledger.plan.sources.any_source import read_source

SIZES = st.sampled_from([1, 2, 7, 64, 1000, 10**6, 10**12])
COUNTED = [
    "n_envs", "n_steps", "batch_size", "n_epochs", "buffer_size", "learning_starts", "total_steps",
    "frame_stack", "population", "episode_length", "torch_threads", "num_env_runners",
    "n_critics", "n_quantiles", "features_dim", "trained_parameters", "activation_bytes",
]  # fmt: skip
SWITCHES = ["optimize_memory_usage", "her", "use_sde", "mmap_threshold", "replay_frames_once"]


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    framework = draw(st.sampled_from(list(FRAMEWORKS.values())))
    found: dict[str, Any] = {
        "framework": framework.name,
        "algorithm": draw(st.sampled_from([entry.name for entry in framework.algorithms])),
        "observation": draw(
            st.sampled_from(
                ["4", "84x84x4:uint8", "discrete:500", {"a": "40x40x3:uint8", "b": "3"}]
            )
        ),
        "action": draw(st.sampled_from(["discrete:4", "box:3", "multidiscrete:3,4"])),
        "machine": {"ram": draw(st.sampled_from(["1MiB", "8GiB", "900TiB"])), "cores": 8},
    }
    found |= draw(st.dictionaries(st.sampled_from(COUNTED), SIZES, max_size=6))
    found |= draw(st.dictionaries(st.sampled_from(SWITCHES), st.booleans()))
    if draw(st.booleans()):
        found["versions"] = {"stable_baselines3": draw(st.sampled_from(["2.0", "2.9.2", "x"]))}
    return found


@settings(max_examples=150, deadline=None)
@given(configs())
def test_every_budget_is_in_order(config: dict[str, Any]) -> None:
    try:
        budget = plan(config)
    except ConfigError:
        return
    for span in (budget.ram.needed, budget.vram.needed, *(row.span for row in budget.rows)):
        assert 0 <= span.low <= span.expected <= span.high
    assert json.loads(json.dumps(budget.to_dict()))["peak_bytes"] == budget.ram.needed.expected
    assert all(item.saves_bytes > 0 for item in budget.recommendations)


SCRIPT = """\
import argparse
from stable_baselines3 import DQN
from elegantrl.train.config import Config
from ray.rllib.algorithms.dqn import DQNConfig
parser = argparse.ArgumentParser()
parser.add_argument("--size", default={0})
args = parser.parse_args()
{3}
table = dict(net_arch={1}, n_critics={2})
envs = DummyVecEnv([make for _ in range({2})])
model = DQN({1}, "CartPole-v1", buffer_size=args.size, batch_size={0}, policy_kwargs=table)
model.learn({2}, callback=CheckpointCallback({1}))
"""
ELEGANT = """\
from elegantrl.agents import AgentTD3
env_args = {{"state_dim": {0}, "action_dim": {1}, "num_envs": {2}}}
args = Config(AgentTD3, None, env_args)
args.net_dims = {0}
args.buffer_size = {1}
{3}
"""
RLLIB = """\
from ray.rllib.algorithms.dqn import DQNConfig
config = DQNConfig().environment({0}).env_runners(num_env_runners={1})
{3}
config.training(train_batch_size={2}, replay_buffer_config={{"capacity": {0}}}, model={1})
"""
PIECES = st.sampled_from(
    ["1", "-3", "0", "2.5", "1e400", "float('nan')", "None", "'x'", "[]", "[64, 'a']", "(1, 2)",
     "{}", "{'fcnet_hiddens': [3]}", "unknown", "2**70", "trial.suggest_int('a', 1, 9)", "f()",
     "*a", "b'x'", "...", "True", "[unknown, 3]", "1/0", "x if y else 3"]
)  # fmt: skip


@settings(
    max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from([SCRIPT, ELEGANT, RLLIB]), PIECES, PIECES, PIECES, st.text(max_size=20))
def test_any_script_is_read_or_refused(
    tmp_path: Path, script: str, first: str, second: str, third: str, line: str
) -> None:
    path = tmp_path / "train.py"
    comment = "# " + " ".join(line.split())
    text = script.format(first, second, third, comment)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        plan(read_source(str(path)))
    except RamledgerError as error:
        assert error.message


@settings(
    max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from([".toml", ".yaml", ".json", ".py"]), st.text(max_size=200))
def test_any_text_is_read_or_refused(tmp_path: Path, suffix: str, text: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        plan(read_source(str(path)))
    except ConfigError as error:
        assert error.hint


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner)
)


@settings(
    max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.dictionaries(st.sampled_from([*COUNTED, "policy", "policy_kwargs", "env_wrapper",
       "train_freq", "n_timesteps", "frame_stack", "model", "num_workers", "train_batch_size",
       "replay_buffer_config", "net_arch", "observation", "callbacks"]), TREES))  # fmt: skip
def test_any_values_are_read_or_refused(tmp_path: Path, values: dict[str, Any]) -> None:
    zoo = tmp_path / "ppo.json"
    for table in ({"CartPole-v1": {"policy": "MlpPolicy", **values}}, values):
        zoo.write_text(json.dumps(table))
        try:
            plan(read_source(str(zoo), env="CartPole-v1"))
        except ConfigError as error:
            assert error.message
