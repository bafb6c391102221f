"""Training code without a framework becomes rows with formulas, lines and what was assumed."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from ramledger.errors import ConfigError
from ramledger.plan.budget import Budget
from ramledger.plan.make_plan import plan
from ramledger.plan.sources.any_source import read_source


def planned(folder: Path, files: dict[str, str] | str, **given: Any) -> Budget:
    table = {"train.py": files} if isinstance(files, str) else files
    for name, text in table.items():
        (folder / name).write_text(dedent(text), encoding="utf-8")
    return plan(read_source(str(folder / next(iter(table))), given=given))


SNAKE = {
    "train.py": """\
        import torch
        from collections import deque
        from net import QNet

        MAX_MEMORY = 100_000
        BATCH = 1000

        class Agent:
            def __init__(self):
                self.scores = deque(maxlen=100)
                self.memory = deque(maxlen=MAX_MEMORY)
                self.model = QNet(11, 256, 3)
                self.target_model = QNet(11, 256, 3)
                self.optimizer = torch.optim.Adam(self.model.parameters())

            def remember(self, state, action, reward, next_state, done):
                self.memory.append((state, action, reward, next_state, done))

        agent = Agent()
        while True:
            old = get_state(game)
            agent.remember(old, action, reward, get_state(game), done)
        """,
    "net.py": """\
        import torch.nn as nn
        class QNet(nn.Module):
            def __init__(self, inputs, hidden, outputs):
                super().__init__()
                self.first = nn.Linear(inputs, hidden)
                self.second = nn.Linear(hidden, outputs)
        """,
}


def test_a_deque_of_transitions_and_a_network_next_door(tmp_path: Path) -> None:
    budget = planned(tmp_path, SNAKE)
    row = budget.row("replay/Agent.memory")
    assert row is not None
    # two arrays of 88 B, each 112 B larger than its data, a tuple of five and a float
    assert row.span.expected == 100_000 * (2 * (112 + 96) + 56 + 5 * 8 + 24)
    assert "deque(maxlen=MAX_MEMORY)" in row.formula
    assert "train.py:11" in row.formula
    network = budget.row("networks/QNet")
    assert network is not None
    parameters = 11 * 256 + 256 + 256 * 3 + 3
    assert network.span.expected == 2 * parameters * 4
    moments = budget.row("optimizer")
    assert moments is not None
    assert moments.span.expected == 2 * parameters * 4, "the target has no moments"
    assert not any("scores" in row.account for row in budget.rows)
    assert any("net.py:2: observation 11:float64" in line for line in budget.assumed)
    assert not budget.unresolved


def test_what_is_given_wins_over_what_is_assumed(tmp_path: Path) -> None:
    budget = planned(tmp_path, SNAKE, observation="20x20x3:uint8", MAX_MEMORY=10)
    row = budget.row("replay/Agent.memory")
    assert row is not None
    assert row.span.expected == 10 * (2 * (112 + 1200) + 120)
    assert not any("--obs" in line for line in budget.assumed)


ARRAYS = """\
    import gym, argparse, torch
    import numpy as np

    class ReplayBuffer:
        def __init__(self, state_dim, action_dim, max_size=int(1e6)):
            self.state = np.zeros((max_size, state_dim))
            self.action = np.zeros((max_size, action_dim), dtype=np.float32)
            self.done = np.zeros(max_size, dtype=bool)
            self.reward = torch.zeros(max_size, 1)

    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="HalfCheetah-v4")
    parser.add_argument("--max_timesteps", default=250_000, type=int)
    args = parser.parse_args()
    env = gym.wrappers.RecordEpisodeStatistics(gym.make(args.env))
    state_dim = env.observation_space.shape[0]
    kwargs = {"action_dim": env.action_space.shape[0]}
    buffer = ReplayBuffer(state_dim, **kwargs)
"""


def test_arrays_are_exact_and_filled_as_far_as_the_steps_go(tmp_path: Path) -> None:
    budget = planned(tmp_path, ARRAYS)
    rows = {row.account: row for row in budget.rows if row.family == "replay"}
    reserved = {name: row.reserved_bytes for name, row in rows.items()}
    assert reserved["replay/ReplayBuffer.state"] == 10**6 * 17 * 8
    assert reserved["replay/ReplayBuffer.action"] == 10**6 * 6 * 4
    assert rows["replay/ReplayBuffer.done"].span.expected == 10**6, "less than one huge page"
    state = rows["replay/ReplayBuffer.state"].span.expected
    assert state == pytest.approx(10**6 * 17 * 8 / 4, abs=2 << 20)
    # torch writes its zeros, numpy asks the kernel for them
    assert rows["replay/ReplayBuffer.reward"].span.expected == 10**6 * 4


def test_a_list_with_a_capacity_and_tensors_that_are_shared(tmp_path: Path) -> None:
    script = """\
        import torch, gymnasium as gym
        class ReplayMemory:
            def __init__(self, capacity):
                self.capacity = capacity
                self.memory = []
            def push(self, *args):
                self.memory.append(Transition(*args))
        memory = ReplayMemory(20_000)
        env = gym.make("CartPole-v1")
        state = torch.tensor(env.reset()[0]).unsqueeze(0)
        while True:
            observation, reward, done, _, _ = env.step(action)
            next_state = torch.tensor(observation).unsqueeze(0)
            memory.push(state, action, next_state, reward)
            state = next_state
        """
    budget = planned(tmp_path, script)
    row = budget.row("replay/ReplayMemory.memory")
    assert row is not None
    # measured: 2,790 B, of which a tensor is about 850
    assert row.span.expected / 20_000 == pytest.approx(2790, rel=0.1)
    assert any("torch tensors" in line and "same object" in line for line in budget.assumed)


IMAGES = """\
    import torch.nn as nn
    from collections import deque
    class Net(nn.Module):
        def __init__(self, actions=4):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(),
                                      nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
                                      nn.Conv2d(64, 64, 3, stride=1), nn.ReLU())
            self.head = nn.Linear(64 * 7 * 7, actions)
    replay = deque(maxlen=50_000)
    net = Net()
    replay.append((a, b, c, d, e))
"""


def test_an_image_whose_dtype_is_not_known_gives_no_number(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="observation's shape is not known") as caught:
        planned(tmp_path, IMAGES)
    assert caught.value.hint is not None
    assert "4x84x84:uint8 or :float32" in caught.value.hint
    assert "train.py:3" in caught.value.hint
    path = tmp_path / "train.py"
    assert caught.value.hint.endswith(f"ramledger plan --rehearse 60s -- python {path}")


def test_its_convolutions_are_counted_once_it_is_given(tmp_path: Path) -> None:
    budget = planned(tmp_path, IMAGES, observation="4x84x84:uint8")
    network = budget.row("networks/Net")
    assert network is not None
    sizes = 4 * 32 * 64 + 32, 32 * 64 * 16 + 64, 64 * 64 * 9 + 64, 3136 * 4 + 4
    assert network.span.expected == 4 * sum(sizes)
    update = budget.row("update/tensors")
    assert update is not None
    assert "convolutions" in update.formula


def test_a_hand_written_search_is_planned_at_its_corners(tmp_path: Path) -> None:
    script = """\
        import optuna, torch, gymnasium as gym
        import torch.nn as nn
        from collections import deque

        class Net(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.layers = nn.Sequential(nn.Linear(376, width), nn.Linear(width, width))

        def objective(trial):
            size = trial.suggest_int("size", 1_000, 10_000_000, log=True)
            batch_size = trial.suggest_categorical("batch", [32, 256])
            net = Net(2 ** trial.suggest_int("width", 5, 10))
            env = gym.make("Humanoid-v4")
            memory = deque(maxlen=size)
            memory.append((state, action, reward, next_state, done))

        optuna.create_study().optimize(objective)
        """
    budget = planned(tmp_path, script, machine={"ram": "16GiB"})
    assert budget.config["buffer_size"] == 1_000
    assert budget.config["batch_size"] == 32
    (check,) = [check for check in budget.checks if check.id == "search-range"]
    assert check.severity == "error"
    assert "buffer_size = 10000000" in check.message
    assert "the largest networks" in check.message
    assert budget.fits


JAX = """\
    import jax, gymnax
    import flax.linen as nn

    class Policy(nn.Module):
        action_dim: int
        @nn.compact
        def __call__(self, x):
            x = nn.Dense(64)(x)
            return nn.Dense(self.action_dim)(x)

    def make_train(config):
        env, params = gymnax.make(config["ENV_NAME"])
        network = Policy(env.action_space(params).n)

    config = {"NUM_ENVS": 2048, "NUM_STEPS": 128, "ENV_NAME": "Acrobot-v1", "NUM_MINIBATCHES": 4}
    make_train(config)
"""


def test_a_dict_of_jax_settings(tmp_path: Path) -> None:
    budget = planned(tmp_path, JAX)
    assert budget.config["library"] == "jax"
    row = budget.row("rollout/observations")
    assert row is not None
    assert row.span.expected == 2048 * 128 * 6 * 4
    imports = budget.row("imports/jax and framework")
    assert imports is not None
    assert "torch" not in imports.formula
    assert budget.row("imports/first optimizer") is None
    assert any(line.startswith("jax:") for line in budget.assumed)


def test_a_single_file_of_cleanrl_with_jax(tmp_path: Path) -> None:
    script = """\
        import jax, flax, tyro
        from dataclasses import dataclass
        from cleanrl_utils.buffers import ReplayBuffer
        @dataclass
        class Args:
            env_id: str = "Humanoid-v4"
            buffer_size: int = 1_000_000
            target_network_frequency: int = 500
            policy_frequency: int = 2
            total_timesteps: int = 5_000_000
        args = tyro.cli(Args)
        rb = ReplayBuffer(args.buffer_size, handle_timeout_termination=False)
        """
    budget = planned(tmp_path, script)
    assert budget.config["framework"] == "cleanrl"
    imports = budget.row("imports/jax and framework")
    assert imports is not None
    assert "torch, jax" in imports.formula, "cleanrl_utils.buffers imports torch as well"
    (check,) = [check for check in budget.checks if check.id == "replay-next-obs"]
    assert "optimize_memory_usage" not in check.fix
    assert not any("optimize_memory_usage" in item.change for item in budget.recommendations)


def test_arguments_of_an_older_elegantrl(tmp_path: Path) -> None:
    script = """\
        from elegantrl.run import Arguments, train_and_evaluate
        from elegantrl.agent import AgentSAC
        from elegantrl.env import PreprocessEnv
        args = Arguments(if_off_policy=True)
        args.agent = AgentSAC()
        args.env = PreprocessEnv(env="Pendulum-v0")
        args.net_dim = 2 ** 7
        args.max_memo = 2 ** 17
        args.batch_size = 128
        train_and_evaluate(args)
        """
    config = planned(tmp_path, script).config
    assert (config["framework"], config["algorithm"], config["env"]) == (
        "elegantrl", "SAC", "Pendulum-v0",
    )  # fmt: skip
    assert (config["net_arch"], config["buffer_size"]) == ([128, 128], 131_072)


def test_a_keras_model_and_its_functions(tmp_path: Path) -> None:
    script = """\
        import gym
        from collections import deque
        from keras.models import Sequential
        from keras.layers import Dense
        class DQNAgent:
            def __init__(self, state_size, action_size):
                self.state_size, self.action_size = state_size, action_size
                self.memory = deque(maxlen=2000)
                self.model = self.build()
                self.target = self.build()
            def build(self):
                model = Sequential()
                model.add(Dense(24, input_dim=self.state_size))
                model.add(Dense(self.action_size))
                return model
        env = gym.make("LunarLander-v2")
        agent = DQNAgent(env.observation_space.shape[0], env.action_space.n)
        """
    budget = planned(tmp_path, script)
    assert budget.config["library"] == "tensorflow"
    network = budget.row("networks/build")
    assert network is not None
    assert network.span.expected == 2 * 4 * (8 * 24 + 24 + 24 * 4 + 4)
    assert any(line.startswith("tensorflow: 570 MB") for line in budget.assumed)


def test_a_yaml_of_one_s_own(tmp_path: Path) -> None:
    path = tmp_path / "snake.yaml"
    path.write_text(
        dedent("""\
        experiment: {name: snake, seed: 3}
        agent:
          algo: ddqn
          replay: {memory_size: 1e5, prioritized: true}
          BATCH_SIZE: 64
        env: {obs_shape: [84, 84, 4], n_actions: 3}
        """),
        encoding="utf-8",
    )
    budget = plan(read_source(str(path)))
    config = budget.config
    assert (config["framework"], config["algorithm"]) == ("custom", "DQN")
    assert (config["buffer_size"], config["batch_size"]) == (100_000, 64)
    assert (config["observation"], config["action"]) == ("84x84x4", "discrete:3")
    (line,) = budget.unresolved
    assert "experiment.name" in line
    assert "agent.replay.prioritized" in line


def test_a_typo_in_a_config_of_ours_is_still_refused(tmp_path: Path) -> None:
    path = tmp_path / "ppo.yaml"
    path.write_text("algorithm: PPO\nn_env: 4\nenv: CartPole-v1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="unknown key 'n_env'"):
        read_source(str(path))


def test_what_is_no_training_is_refused_with_a_way_to_measure_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no training was recognized") as caught:
        planned(tmp_path, "import json\nprint(json.dumps(3))\n")
    assert caught.value.hint is not None
    assert caught.value.hint.endswith(f"--rehearse 60s -- python {tmp_path / 'train.py'}")


def test_layers_of_a_loop_and_a_config_by_its_annotation(tmp_path: Path) -> None:
    script = """\
        from collections import deque
        from dataclasses import dataclass
        import gymnasium as gym
        import torch.nn as nn

        @dataclass
        class Settings:
            capacity: int = 30_000
            widths: tuple = (128, 64)

        class Net(nn.Module):
            def __init__(self, inputs, widths, outputs):
                super().__init__()
                sizes = [inputs, *widths, outputs]
                layers = []
                for before, after in zip(sizes[:-1], sizes[1:], strict=True):
                    layers += [nn.Linear(before, after), nn.ReLU()]
                self.net = nn.Sequential(*layers)

        def train(settings: Settings):
            env = gym.make("LunarLander-v3")
            net = Net(env.observation_space.shape[0], settings.widths, env.action_space.n)
            memory = deque(maxlen=settings.capacity)
            memory.append((state, action, reward, next_state, done))
        """
    budget = planned(tmp_path, script)
    assert budget.config["buffer_size"] == 30_000
    network = budget.row("networks/Net")
    assert network is not None
    assert network.span.expected == 4 * (8 * 128 + 128 + 128 * 64 + 64 + 64 * 4 + 4)


def test_frames_that_are_changed_before_they_are_stored(tmp_path: Path) -> None:
    script = """\
        import gymnasium as gym
        from collections import deque
        env = gym.make("CarRacing-v3")
        memory = deque(maxlen=10_000)
        frame, _ = env.reset()
        state = preprocess(frame)
        while True:
            frame, reward, done, _, _ = env.step(action)
            next_state = preprocess(frame)
            memory.append((state, action, reward, next_state, done))
            state = next_state
        """
    with pytest.raises(ConfigError, match="observation's shape is not known") as caught:
        planned(tmp_path, script)
    assert caught.value.hint is not None
    assert "train.py:6: observation is what preprocess makes of 96x96x3" in caught.value.hint
    row = planned(tmp_path, script, observation="84x84:uint8").row("replay/memory")
    assert row is not None
    assert row.span.expected == 10_000 * (112 + 84 * 84 + 120 + 112 + 16)


def test_a_history_of_deques_is_as_long_as_it_is_kept(tmp_path: Path) -> None:
    script = """\
        import torch
        from collections import deque
        history = []
        for iteration in range(100):
            examples = deque([], maxlen=1_000)
            examples.append((board, policy, value))
            history.append(examples)
            if len(history) > 20:
                history.pop(0)
        """
    budget = planned(tmp_path, script, observation="6x6:float64", action="discrete:37")
    assert budget.config["buffer_size"] == 20_000
    row = budget.row("replay/examples")
    assert row is not None
    assert "× 20 in history" in row.formula


def test_a_capacity_that_only_running_would_tell_gives_no_number(tmp_path: Path) -> None:
    script = """\
        import sys, torch
        from collections import deque
        memory = deque(maxlen=int(sys.argv[1]))
        memory.append((state, action, reward, next_state, done))
        """
    with pytest.raises(ConfigError, match=r"train\.py:3: how much memory holds") as caught:
        planned(tmp_path, script, observation="8")
    assert caught.value.hint is not None
    assert caught.value.hint.endswith(f"--rehearse 60s -- python {tmp_path / 'train.py'}")
    budget = planned(tmp_path, script, observation="8", buffer_size=500)
    row = budget.row("replay/memory")
    assert row is not None
    assert row.formula.startswith("500 ×")


STACKED = """\
    import torch
    import numpy as np
    class ReplayBuffer:
        def __init__(self, capacity, shape):
            self.obs = np.zeros((capacity, *shape), dtype=np.uint8)
            self.hidden_state = np.zeros((capacity, width()))
            self.reward = np.zeros(capacity)
    buffer = ReplayBuffer(10_000, make_env().observation_space.shape)
"""


def test_an_array_of_observations_whose_shape_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"train\.py:5: how much ReplayBuffer\.obs holds"
    ) as caught:
        planned(tmp_path, STACKED)
    assert caught.value.hint is not None
    assert "--obs" in caught.value.hint
    budget = planned(tmp_path, STACKED, observation="84x84x4:uint8")
    row = budget.row("replay/ReplayBuffer.obs")
    assert row is not None
    assert row.span.expected == 10_000 * 84 * 84 * 4
    (line,) = budget.unresolved
    assert "train.py:6: the size of ReplayBuffer.hidden_state" in line


def test_a_population_without_an_optimizer(tmp_path: Path) -> None:
    script = """\
        import torch, gymnasium as gym
        import torch.nn as nn
        POP_SIZE = 50
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(24, 4)
        envs = gym.vector.AsyncVectorEnv([lambda: gym.make("BipedalWalker-v3")] * 4)
        population = [Net() for _ in range(POP_SIZE)]
        loader = torch.utils.data.DataLoader(data, num_workers=3)
        """
    budget = planned(tmp_path, script)
    network = budget.row("networks/Net")
    assert network is not None
    assert network.span.expected == 50 * 4 * (24 * 4 + 4)
    assert budget.row("optimizer") is None
    assert (budget.config["n_envs"], budget.config["vec_env"]) == (4, "subproc")
    assert any("3 workers of a DataLoader" in line for line in budget.assumed)
    assert any("--set n_steps" in line for line in budget.assumed)
