"""Scripts, read and not run: four frameworks, names followed, what is missing said by name."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from ramledger.errors import ConfigError
from ramledger.plan.make_plan import plan
from ramledger.plan.sources.source_result import Reading
from ramledger.plan.sources.training_script import read_script


def read(folder: Path, text: str, **given: Any) -> Reading:
    path = folder / "train.py"
    path.write_text(dedent(text), encoding="utf-8")
    return read_script(str(path), given)


GAME_BOY = """\
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import CallbackList, CheckpointCallback, EvalCallback
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

    NUM_ENVS = 2
    EP_LENGTH = 2048 * 4
    SAVE_FREQ = EP_LENGTH * 10

    def make_env(rank):
        def init():
            return GameBoyEnv(rank)
        return init

    def main(epochs=10):
        env = SubprocVecEnv([make_env(i) for i in range(NUM_ENVS)])
        env = VecFrameStack(env, n_stack=4)
        model = PPO("CnnPolicy", env, n_steps=EP_LENGTH, batch_size=2048, n_epochs=epochs)
        checkpoint = CheckpointCallback(SAVE_FREQ, "out", save_replay_buffer=True)
        evaluation = EvalCallback(env, eval_freq=1000)
        callbacks = CallbackList([checkpoint])
        model.learn(10_000_000, callback=callbacks)

    main(epochs=5)
"""


def test_a_game_boy_emulator(tmp_path: Path) -> None:
    reading = read(tmp_path, GAME_BOY, observation="144x160x3:uint8", action="discrete:7")
    config = reading.config
    assert (config.framework, config.algorithm, config.policy) == ("sb3", "PPO", "CnnPolicy")
    assert (config.n_envs, config.n_steps, config.batch_size) == (2, 8192, 2048)
    assert (config.n_epochs, config.frame_stack, config.total_steps) == (5, 4, 10_000_000)
    assert (config.vec_env, config.start_method) == ("subproc", "forkserver")
    assert config.callbacks.checkpoint_every == 81_920
    assert config.callbacks.save_replay_buffer
    assert reading.places["n_envs"].endswith("train.py:15")
    assert not reading.unresolved
    (check,) = reading.checks
    assert check.id == "callback-not-registered"
    assert check.where.endswith("train.py:19")
    assert "line 20" in check.fix


def test_a_name_of_the_script_can_be_given(tmp_path: Path) -> None:
    reading = read(tmp_path, GAME_BOY, NUM_ENVS=6, observation="84x84x3:uint8")
    assert reading.config.n_envs == 6
    with pytest.raises(ConfigError, match="NUM_ENVZ"):
        read(tmp_path, GAME_BOY, NUM_ENVZ=6)


@pytest.mark.parametrize(
    "register",
    [
        "model.learn(100, callback=evaluation)",
        "model.learn(100, callback=[evaluation])",
        "model.learn(100, CallbackList([evaluation]))",
    ],
)
def test_a_callback_that_is_registered(tmp_path: Path, register: str) -> None:
    text = f"""\
        from stable_baselines3 import DQN
        from stable_baselines3.common.callbacks import CallbackList, EvalCallback
        model = DQN("MlpPolicy", "CartPole-v1")
        evaluation = EvalCallback(model.get_env())
        {register}
    """
    assert not read(tmp_path, text).checks


def test_the_environment_s_own_spaces(tmp_path: Path) -> None:
    (tmp_path / "game.py").write_text(
        dedent("""\
            import numpy as np
            from gymnasium import Env, spaces
            HEIGHT = 72
            class Game(Env):
                def __init__(self, width=80):
                    self.observation_space = spaces.Box(0, 255, (HEIGHT, width, 1), dtype=np.uint8)
                    self.action_space = spaces.MultiDiscrete([3, 5])
        """)
    )
    reading = read(
        tmp_path,
        """\
        from stable_baselines3 import PPO
        from game import Game
        PPO("CnnPolicy", Game(), n_steps=512)
        """,
    )
    assert reading.config.observation == "72x80x1:uint8"
    assert reading.config.action == "multidiscrete:3,5"
    assert "game.py:6" in reading.places["observation"]


def test_a_dict_space_and_policy_kwargs(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        """\
        from gymnasium import spaces
        import numpy as np
        from sb3_contrib import RecurrentPPO as Algo
        class Game:
            def __init__(self):
                self.observation_space = spaces.Dict({
                    "image": spaces.Box(low=0, high=255, shape=(64, 64, 3), dtype=np.uint8),
                    "speed": spaces.Box(-1, 1, (3,)),
                })
                self.action_space = spaces.Discrete(5)
        kwargs = dict(net_arch=[128, 64], lstm_hidden_size=2**7)
        model = Algo("MultiInputLstmPolicy", Game(), policy_kwargs=kwargs, device="cuda:0")
        model.learn(total_timesteps=int(1e6))
        """,
    )
    config = reading.config
    assert config.observation == {"image": "64x64x3:uint8", "speed": "3:float32"}
    assert (config.algorithm, config.net_arch) == ("RecurrentPPO", [128, 64])
    assert (config.lstm_hidden_size, config.device, config.total_steps) == (128, "cuda", 10**6)


def test_arguments_with_defaults(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        """\
        import argparse
        import torch
        from stable_baselines3 import SAC
        from stable_baselines3.common.env_util import make_vec_env
        parser = argparse.ArgumentParser()
        parser.add_argument("--env-id", default="HalfCheetah-v4")
        parser.add_argument("-b", "--buffer-size", type=int, default=200_000)
        parser.add_argument("--seed", type=int)
        args = parser.parse_args()
        torch.set_num_threads(12)
        hyper = {"batch_size": 512, "learning_starts": 10 * 1000, "train_freq": (8, "step")}
        envs = make_vec_env(args.env_id, n_envs=4)
        model = SAC("MlpPolicy", envs, buffer_size=args.buffer_size, **hyper, seed=args.seed)
        """,
    )
    config = reading.config
    assert (config.env, config.n_envs, config.buffer_size) == ("HalfCheetah-v4", 4, 200_000)
    assert (config.batch_size, config.learning_starts, config.train_freq) == (512, 10_000, 8)
    assert config.torch_threads == 12
    assert plan(reading).title.startswith("sb3 SAC on HalfCheetah-v4 (17:float64; box:6)")


CLEAN = """\
    from dataclasses import dataclass
    import gymnasium as gym
    import torch

    @dataclass
    class Args:
        env_id: str = "BreakoutNoFrameskip-v4"
        total_timesteps: int = 10000000
        num_envs: int = 8
        num_steps: int = 128
        num_minibatches: int = 4
        clip_coef: float = 0.1
        batch_size: int = 0

    def make_env(env_id):
        env = gym.make(env_id)
        env = gym.wrappers.ResizeObservation(env, (84, 84))
        env = gym.wrappers.GrayScaleObservation(env)
        return gym.wrappers.FrameStack(env, 4)

    args = Args()
    envs = gym.vector.SyncVectorEnv([lambda: make_env(args.env_id) for i in range(args.num_envs)])
"""


def test_a_single_file_of_cleanrl(tmp_path: Path) -> None:
    reading = read(tmp_path, CLEAN)
    config = reading.config
    assert (config.framework, config.algorithm) == ("cleanrl", "PPO")
    assert (config.n_envs, config.n_steps, config.batch_size) == (8, 128, 256)
    budget = plan(reading)
    row = budget.row("rollout/observations")
    assert row is not None
    assert row.span.expected == 8 * 128 * 84 * 84 * 4 * 4
    assert read(tmp_path, CLEAN, num_envs=16).config.n_envs == 16


def test_elegantrl(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        """\
        from elegantrl.agents import AgentTD3
        from elegantrl.train.config import Config
        from elegantrl.train.run import train_agent
        env_args = {"env_name": "Trading-v1", "state_dim": 71, "action_dim": 6,
                    "if_discrete": False, "num_envs": 4, "max_step": 1000}
        args = Config(AgentTD3, None, env_args)
        args.net_dims = [256, 256]
        args.batch_size = 256
        args.buffer_size = int(2e4)
        args.horizon_len = env_args["max_step"] * 2
        train_agent(args)
        """,
    )
    config = reading.config
    assert (config.framework, config.algorithm) == ("elegantrl", "TD3")
    assert (config.observation, config.action, config.n_envs) == ("71", "box:6", 4)
    assert (config.net_arch, config.buffer_size) == ([256, 256], 20_000)
    row = plan(reading).row("replay/transitions")
    assert row is not None
    assert row.span.expected == 20_000 * 4 * (71 + 6 + 2) * 4


def test_rllib(tmp_path: Path) -> None:
    reading = read(
        tmp_path,
        """\
        from ray.rllib.algorithms.ppo import PPOConfig
        WORKERS = 4
        config = (
            PPOConfig()
            .environment("CartPole-v1")
            .env_runners(num_env_runners=WORKERS, num_envs_per_env_runner=2)
            .training(train_batch_size=8000, minibatch_size=256, num_epochs=10,
                      model={"fcnet_hiddens": [64, 64]})
        )
        algo = config.build()
        """,
    )
    config = reading.config
    assert (config.framework, config.algorithm, config.env) == ("rllib", "PPO", "CartPole-v1")
    assert (config.num_env_runners, config.n_envs, config.n_steps) == (4, 2, 8000)
    assert (config.batch_size, config.net_arch) == (256, [64, 64])
    assert plan(reading).training.batches_per_epoch == 32


SEARCH = """\
    import optuna
    from stable_baselines3 import DQN
    def objective(trial):
        size = trial.suggest_int("buffer_size", 10_000, 1_000_000)
        batch = trial.suggest_categorical("batch_size", [32, 64, 512])
        model = DQN("CnnPolicy", "PongNoFrameskip-v4", buffer_size=size, batch_size=batch)
        model.learn(10**7)
    optuna.create_study().optimize(objective)
"""


@pytest.mark.parametrize(("ram", "severity"), [("16GiB", "error"), ("900GiB", "note")])
def test_a_search_whose_corner_does_not_fit(tmp_path: Path, ram: str, severity: str) -> None:
    reading = read(tmp_path, SEARCH, observation="84x84x4:uint8", machine={"ram": ram})
    assert reading.config.buffer_size == 10_000
    assert {r.field: r.high for r in reading.ranges} == {"buffer_size": 10**6, "batch_size": 512}
    budget = plan(reading)
    assert budget.fits
    (check,) = [check for check in budget.checks if check.id == "search-range"]
    assert check.severity == severity
    assert check.where.endswith("train.py:4")


def test_targets_that_ppo_does_not_have(tmp_path: Path) -> None:
    text = """\
        from stable_baselines3 import PPO
        PPO("MlpPolicy", "CartPole-v1", tau=0.005, buffer_size=5000)
    """
    found = {check.id for check in read(tmp_path, text).checks}
    assert found == {"no-target-network", "no-replay-buffer"}


def test_what_only_running_would_tell_is_listed(tmp_path: Path) -> None:
    text = """\
        import json
        from stable_baselines3 import PPO
        settings = json.load(open("settings.json"))
        n = compute(settings)
        PPO("MlpPolicy", "CartPole-v1", n_steps=n, batch_size=settings["batch"], n_epochs=3)
    """
    reading = read(tmp_path, text)
    assert [line.split(" is ")[0].split(": ")[1] for line in reading.unresolved] == [
        "n_steps",
        "batch_size",
    ]
    assert reading.config.n_epochs == 3
    assert read(tmp_path, text, n=256).config.n_steps == 256
    assert read(tmp_path, text, n_steps=128).config.n_steps == 128


def test_branches_that_are_decided(tmp_path: Path) -> None:
    text = """\
        from stable_baselines3 import PPO
        DEBUG = False
        if DEBUG:
            steps = 16
        else:
            steps = 1024 if not DEBUG else 8
        PPO("MlpPolicy", "CartPole-v1", n_steps=steps)
    """
    assert read(tmp_path, text).config.n_steps == 1024
    assert read(tmp_path, text, DEBUG=True).config.n_steps == 16


def test_the_gpu_is_used_when_there_is_one(tmp_path: Path) -> None:
    for device, machine, wanted in (
        ("", {"vram": "16GiB"}, "cuda"),
        ("", {"ram": "16GiB"}, "cpu"),
        (", device='cpu'", {"vram": "16GiB"}, "cpu"),
        (", device='cuda:1'", {}, "cuda"),
    ):
        text = f"from stable_baselines3 import PPO\nPPO('MlpPolicy', 'CartPole-v1'{device})\n"
        assert read(tmp_path, text, machine=machine).config.device == wanted


def test_classes_and_policies_by_name_across_modules(tmp_path: Path) -> None:
    (tmp_path / "grid.py").write_text(
        dedent("""\
            import gymnasium
            class Grid(gymnasium.Env):
                def __init__(self, rows, columns=3):
                    self.observation_space = gymnasium.spaces.Box(-1, 1, (rows, columns, 2))
                    self.moves = [UP, DOWN, LEFT]
                    self.action_space = gymnasium.spaces.Discrete(len(self.moves))
        """)
    )
    reading = read(
        tmp_path,
        """\
        from grid import Grid
        from stable_baselines3 import PPO
        from stable_baselines3.ppo import MlpPolicy
        ROWS = 8
        model = PPO(MlpPolicy, Grid(ROWS, columns=10))
        """,
    )
    assert (reading.config.observation, reading.config.action) == ("8x10x2:float32", "discrete:3")
    assert reading.config.policy == "MlpPolicy"


def test_a_single_file_s_buffer_that_stores_observations_once(tmp_path: Path) -> None:
    text = """\
        from dataclasses import dataclass
        from cleanrl_utils.buffers import ReplayBuffer
        @dataclass
        class Args:
            env_id: str = "BreakoutNoFrameskip-v4"
            total_timesteps: int = 10_000_000
            buffer_size: int = 1_000_000
            target_network_frequency: int = 1000
            start_e: float = 1
        args = Args()
        rb = ReplayBuffer(args.buffer_size, None, None, optimize_memory_usage=True,
                          handle_timeout_termination=False)
    """
    reading = read(tmp_path, text)
    assert (reading.config.framework, reading.config.algorithm) == ("cleanrl", "DQN")
    budget = plan(reading)
    assert budget.row("replay/observations")
    assert budget.row("replay/next_observations") is None


def test_an_algorithm_under_another_name(tmp_path: Path) -> None:
    text = """\
        from stable_baselines3 import DQN
        model_class = DQN
        model = model_class("MlpPolicy", "CartPole-v1", buffer_size=5000)
        model.learn(1000)
    """
    config = read(tmp_path, text).config
    assert (config.algorithm, config.env, config.buffer_size) == ("DQN", "CartPole-v1", 5000)


def test_an_agent_that_is_only_asserted_and_one_that_is_not_named(tmp_path: Path) -> None:
    text = """\
        from elegantrl.agents import AgentD3QN, AgentDQN
        from elegantrl.train.config import Config
        def train(agent_class):
            {}
            env_args = {{"env_name": "x", "state_dim": 4, "action_dim": 2, "if_discrete": True}}
            args = Config(agent_class, None, env_args)
    """
    asserted = "assert agent_class in {AgentD3QN, AgentDQN}"
    assert read(tmp_path, text.format(asserted)).config.algorithm == "D3QN"
    with pytest.raises(ConfigError, match="known only when the script runs") as caught:
        read(tmp_path, text.format("pass"))
    assert "--set algorithm" in (caught.value.hint or "")
    assert read(tmp_path, text.format("pass"), algorithm="DQN").config.algorithm == "DQN"
