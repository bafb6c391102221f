"""Scripts whose settings and environments are in files beside them."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from ramledger.plan.sources.source_result import Reading
from ramledger.plan.sources.training_script import read_script


def read(folder: Path, files: dict[str, str], script: str = "train.py", **given: Any) -> Reading:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return read_script(str(folder / script), given)


SNAKE_ENV = """\
    import numpy as np
    from gymnasium import Env, spaces

    class SnakeEnv(Env):
        def __init__(self, settings, cells=10):
            self.window = (settings["height"], cells * 2, 3)
            high = np.array([1.0, 2.0, np.inf], dtype=np.float32)
            self.observation_space = spaces.Box(0, 255, shape=self.window, dtype=np.uint8)
            self.action_space = spaces.Box(-high, high)
"""
MODEL = """\
    from stable_baselines3 import SAC
    env = SnakeEnv(SETTINGS, cells=CELLS)
    model = SAC("CnnPolicy", env, buffer_size=Config.BUFFER_SIZE, batch_size=config.BATCH)
    model.learn(cfg.total)
"""


@pytest.mark.parametrize(
    "imports",
    ["from envs.snake import SnakeEnv", "from .envs.snake import SnakeEnv", "from envs import *"],
)
def test_the_environment_and_the_constants_next_door(tmp_path: Path, imports: str) -> None:
    head = f"""\
    import config
    from config import CELLS, Config
    from settings import get_config
    {imports}
    SETTINGS = {{"height": 36}}
    cfg = get_config()
    """
    files = {
        "train.py": dedent(head) + dedent(MODEL),
        "config.py": "CELLS = 20\nBATCH = 2**7\nclass Config:\n    BUFFER_SIZE = 50_000\n",
        "settings.py": """\
            from dataclasses import dataclass
            @dataclass
            class Run:
                total: int = 1_000
                seed: int = 0
            def get_config():
                return Run(total=30_000)
            """,
        "envs/__init__.py": "from .snake import SnakeEnv\n",
        "envs/snake.py": SNAKE_ENV,
    }
    reading = read(tmp_path, files)
    config = reading.config
    assert config.observation == "36x40x3:uint8"
    assert config.action == "box:3"
    assert (config.buffer_size, config.batch_size, config.total_steps) == (50_000, 128, 30_000)
    assert reading.places["observation"].endswith("envs/snake.py:8")
    assert not reading.unresolved


def test_a_registered_environment_and_one_that_is_not_used(tmp_path: Path) -> None:
    files = {
        "train.py": """\
            import gymnasium as gym
            import another
            from stable_baselines3 import PPO
            gym.register(id="Grid-v0", entry_point="grid:GridEnv")
            model = PPO("MlpPolicy", gym.make("Grid-v0"), n_steps=256)
            """,
        "grid.py": """\
            import numpy as np
            from gymnasium import spaces
            class GridEnv:
                observation_space = spaces.Box(np.zeros(7), np.ones(7))
                action_space = spaces.Discrete(3)
            """,
        "another.py": """\
            from gymnasium import spaces
            class AnotherEnv:
                def __init__(self):
                    self.observation_space = spaces.Box(0, 1, (99,))
            """,
    }
    config = read(tmp_path, files).config
    assert (config.observation, config.action) == ("7:float32", "discrete:3")


@pytest.mark.parametrize(
    "loads",
    [
        'import yaml\ncfg = yaml.safe_load(open("conf/run.yaml"))',
        'import yaml\nwith open("conf/run.yaml") as file:\n    cfg = yaml.safe_load(file)',
        'from omegaconf import OmegaConf\ncfg = OmegaConf.load("conf/run.yaml")',
    ],
)
def test_settings_from_a_file_that_the_script_loads(tmp_path: Path, loads: str) -> None:
    script = f"""{loads}
from stable_baselines3 import DQN
model = DQN("MlpPolicy", "CartPole-v1", buffer_size=cfg["replay"]["size"], batch_size=cfg.get("n"))
"""
    files = {"train.py": script, "conf/run.yaml": "replay: {size: 7_000}\nn: 64\n"}
    config = read(tmp_path, files).config
    assert (config.buffer_size, config.batch_size) == (7_000, 64)


def test_a_config_that_hydra_composes(tmp_path: Path) -> None:
    files = {
        "train.py": """\
            import hydra
            from stable_baselines3 import PPO
            @hydra.main(config_path="conf", config_name="main")
            def main(cfg):
                model = PPO("MlpPolicy", cfg.env.id, n_steps=cfg.algo.n_steps)
                model.learn(cfg.steps)
            main()
            """,
        "conf/main.yaml": """\
            defaults:
              - algo: ppo
              - _self_
            steps: 9_000
            env: {id: Acrobot-v1}
            """,
        "conf/algo/ppo.yaml": "n_steps: 512\n",
    }
    config = read(tmp_path, files).config
    assert (config.env, config.n_steps, config.total_steps) == ("Acrobot-v1", 512, 9_000)


def test_modules_that_import_each_other(tmp_path: Path) -> None:
    files = {
        "train.py": "from other import N\nfrom stable_baselines3 import PPO\n"
        "M = 3\nPPO('MlpPolicy', 'CartPole-v1', n_steps=N)\n",
        "other.py": "import train\nN = 64\n",
    }
    assert read(tmp_path, files).config.n_steps == 64


def test_a_model_that_a_module_builds(tmp_path: Path) -> None:
    files = {
        "train.py": """\
            from agent import Agent
            from settings import Settings
            def main(settings: Settings):
                agent = Agent(settings)
                agent.model.learn(settings.steps)
            main()
            """,
        "settings.py": "class Settings:\n    steps = 70_000\n    rollout = 512\n    envs = 3\n",
        "agent.py": """\
            from stable_baselines3 import PPO
            from stable_baselines3.common.env_util import make_vec_env
            class Agent:
                def __init__(self, settings):
                    env = make_vec_env("Acrobot-v1", n_envs=settings.envs)
                    self.model = PPO("MlpPolicy", env, n_steps=settings.rollout)
            """,
    }
    reading = read(tmp_path, files)
    config = reading.config
    assert (config.algorithm, config.env, config.n_envs) == ("PPO", "Acrobot-v1", 3)
    assert (config.n_steps, config.total_steps) == (512, 70_000)
    assert reading.places["n_steps"].endswith("agent.py:6")
    assert reading.places["total_steps"].endswith("train.py:5")
    assert read(tmp_path, {}, rollout=128).config.n_steps == 128
