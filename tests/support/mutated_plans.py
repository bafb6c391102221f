"""Scripts and configs that plan can read, and the same with something broken in them."""

import random
from collections.abc import Iterator

SB3 = """\
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import CallbackList, CheckpointCallback, EvalCallback
from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack
NUM_ENVS = 2
EP_LENGTH = 2048 * 4
class Game:
    def __init__(self, width=80):
        self.observation_space = spaces.Dict({
            "image": spaces.Box(low=0, high=255, shape=(64, width, 3), dtype=np.uint8),
            "speed": spaces.Box(-1, 1, (3,)),
        })
        self.action_space = spaces.MultiDiscrete([3, 5])
def make_env(rank):
    def init():
        return Game(rank)
    return init
def main(epochs=10):
    env = SubprocVecEnv([make_env(i) for i in range(NUM_ENVS)], start_method="fork")
    env = VecFrameStack(env, n_stack=4)
    kwargs = dict(net_arch=dict(pi=[128, 64], vf=[64]), lstm_hidden_size=2**7)
    model = PPO("MultiInputPolicy", env, n_steps=EP_LENGTH, batch_size=2048, n_epochs=epochs,
                policy_kwargs=kwargs, device="cuda:0")
    checkpoint = CheckpointCallback(EP_LENGTH * 10, "out", save_replay_buffer=True)
    model.learn(10_000_000, callback=CallbackList([checkpoint]))
main(epochs=5)
"""
CLEANRL = """\
import gymnasium as gym
import torch.nn as nn
from cleanrl_utils.buffers import ReplayBuffer
class Args:
    env_id: str = "CartPole-v1"
    total_timesteps: int = 500000
    num_envs: int = 1
    buffer_size: int = 10000
    batch_size: int = 128
class QNetwork(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(4, 120), nn.ReLU(), nn.Linear(120, 2))
args = tyro.cli(Args)
envs = gym.vector.SyncVectorEnv([make_env(args.env_id, i) for i in range(args.num_envs)])
q_network = QNetwork(envs).to(device)
rb = ReplayBuffer(args.buffer_size, envs.single_observation_space, device)
data = rb.sample(args.batch_size)
"""
ELEGANTRL = """\
from elegantrl.train.config import Config
from elegantrl.agents import AgentTD3
env_args = {"env_name": "Pendulum-v1", "state_dim": 3, "action_dim": 1, "num_envs": 4,
            "max_step": 200, "if_discrete": False}
args = Config(AgentTD3, None, env_args)
args.net_dims = [64, 32]
args.buffer_size = int(1e6)
args.horizon_len = args.max_step * 2
"""
RLLIB = """\
from ray.rllib.algorithms.dqn import DQNConfig
config = DQNConfig().environment("CartPole-v1").env_runners(num_env_runners=3)
config.training(train_batch_size=512, replay_buffer_config={"capacity": 10**5},
                model={"fcnet_hiddens": [32, 32]})
config = config.rl_module(model_config={"fcnet_hiddens": [3]})
"""
OPTUNA = """\
from stable_baselines3 import DQN
def objective(trial):
    size = trial.suggest_int("size", 1000, 100000)
    width = trial.suggest_categorical("width", [64, 128])
    env = DummyVecEnv([make for _ in range(trial.suggest_int("n", 1, 8))])
    return DQN("MlpPolicy", "CartPole-v1", buffer_size=size, policy_kwargs={"net_arch": [width]})
"""
TOML = """\
algorithm = "SAC"
framework = "sb3"
observation = "3"
action = "box:1"
buffer_size = 1_000_000
net_arch = [256, 256]
[machine]
ram = "32GiB"
cores = 8
[callbacks]
checkpoint_every = 1000
"""
TRAINER = """\
env = "trading"
generations = 25
population = 16
capacity = 50_000
[learning]
hidden = [64, 64]
batch = 64
[market]
rows = 1500
"""
ZOO = """\
default: &default
  policy: 'MlpPolicy'
  n_envs: !!int 8
  n_timesteps: !!float 1e6
CartPole-v1:
  <<: *default
  n_steps: 32
  policy_kwargs: "dict(net_arch=[64, 64], log_std_init=-2)"
  env_wrapper:
    - gymnasium.wrappers.TimeLimit:
        max_episode_steps: 3
  frame_stack: 4
  learning_rate: lin_0.001
"""
DUMP = """\
{"algo_class": "<class 'ray.rllib.algorithms.ppo.ppo.PPO'>", "env": "CartPole-v1",
 "num_env_runners": 3, "num_envs_per_env_runner": 2, "train_batch_size": 4000,
 "model": {"fcnet_hiddens": [32, 32]}, "lr": 5e-05, "observation_space": null}
"""
SOURCES = {
    "sb3.py": SB3, "cleanrl.py": CLEANRL, "elegantrl.py": ELEGANTRL, "rllib.py": RLLIB,
    "optuna.py": OPTUNA, "own.toml": TOML, "trainer.toml": TRAINER, "ppo.yml": ZOO,
    "params.json": DUMP,
}  # fmt: skip
PIECES = (
    "0", "-1", "9" * 30, "9" * 5000, "0x" + "f" * 400, "1e999", "-1e-999", "nan", ".inf", "1.5",
    "None", "null", "True", "''", '""', "[]", "{}", "()", "[[]]", "{'a': {}}", "[" * 60, "(" * 60,
    "a.b.c", "x[0]", "x[::2]", "*a", "**k", "f()", "lambda: 0", "10**10**10", "'a'*10**12",
    "1<<62<<62", "[0]*10**9", "[*a, *a]", "range(10**15)", "not x", "-'a'", "a if b else c",
    "1/0", "b'\\xff'", "f'{x}{x}'", "...", "1j", "(-8)**0.5", "round(5, -10**9)", "int('9'*4000)",
    "str(x)*99999", "max([])", "min(1, 'a')", "len(3)", "list(5)", "{[]: 1}", "{**1}", "dict(**2)",
    "trial.suggest_int('a', 'b', [])", "trial.suggest_categorical('a', 7)", "&a [*a]", "<<: 3",
    "!!bool maybe", "2001-99-99", "!!int x", "!!timestamp y", "!!binary #", "? [a]\n: b", "- ",
    "= 1", "[a.b]", "[[a]]", "include = 'own.toml'", "\t", "\n", "\0", "\ud800", "\u202e", "\\",
    "#", "'", '"""', ":", ",", "=", "==", ";", "@", "async ", "yield ", "await ", "del ",
)  # fmt: skip


def mutations(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """`count` broken sources, each with its file's name; the same seed breaks the same way."""
    chance = random.Random(seed)
    names = list(SOURCES)
    for number in range(count):
        name = names[number % len(names)]
        text = SOURCES[name]
        for _ in range(chance.choice((1, 1, 2, 3, 6))):
            text = _broken(text, chance)
        yield name, text.encode("utf-8", "surrogatepass")


def _broken(text: str, chance: random.Random) -> str:
    begin = chance.randrange(len(text) + 1)
    end = min(len(text), begin + chance.choice((0, 1, 2, 5, 20, 80)))
    kind = chance.randrange(6)
    if kind == 0:  # something in place of a value
        begin, end = _word(text, begin)
        return text[:begin] + chance.choice(PIECES) + text[end:]
    if kind == 1:
        return text[:begin] + chance.choice(PIECES) + text[begin:]
    if kind == 2:
        return text[:begin] + text[end:]
    if kind == 3:
        return text[:end] + text[begin:end] * chance.choice((1, 3, 40)) + text[end:]
    if kind == 4:
        first, last = _word(text, begin)
        other, until = _word(text, chance.randrange(len(text) + 1))
        return text[:first] + text[other:until] + text[last:]
    lines = text.splitlines(keepends=True)
    chance.shuffle(lines)
    return "".join(lines)


def _word(text: str, at: int) -> tuple[int, int]:
    """Where the word or number around a place begins and ends."""
    begin = end = min(at, len(text))
    while begin and (text[begin - 1].isalnum() or text[begin - 1] in "_."):
        begin -= 1
    while end < len(text) and (text[end].isalnum() or text[end] in "_."):
        end += 1
    return begin, end
