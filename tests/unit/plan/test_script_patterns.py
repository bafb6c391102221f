"""Scripts without a framework: lists that go together, processes, wrappers that are not used."""

from pathlib import Path

from ramledger.plan.make_plan import plan


def test_lists_that_are_cut_together_are_one_buffer(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import gymnasium as gym\nimport torch\nfrom torch import nn\n"
        "MOST = 5000\nactions, states, rewards = [], [], []\n"
        "env = gym.make('CartPole-v1')\nnet = nn.Linear(4, 2)\n"
        "optimizer = torch.optim.Adam(net.parameters())\n"
        "def step(state, action, reward):\n"
        "    actions.append(action)\n    states.append(state)\n    rewards.append(reward)\n"
        "    if len(rewards) > MOST:\n"
        "        del rewards[:1]\n        del states[:1]\n        del actions[:1]\n"
    )
    budget = plan(script)
    (row,) = [row for row in budget.rows if row.family == "replay"]
    assert "5,000" in row.formula


def test_what_no_formula_counts_is_said(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import gymnasium as gym\nimport torch\nimport torch.multiprocessing as mp\n"
        "from torch import nn\nfrom collections import deque\n"
        "class Worker(mp.Process):\n    pass\n"
        "memory = deque(maxlen=5000)\nenv = gym.make('CartPole-v1')\nnet = nn.Linear(4, 2)\n"
        "memory.append((1, 2, 3, 4, 5))\n"
        "optimizer = torch.optim.Adam(net.parameters())\n"
    )
    budget = plan(script)
    said = [line for line in budget.assumed if "Worker is a process" in line]
    assert len(said) == 1
    assert f"{script}:6" in said[0]
    assert "--rehearse 60s" in said[0]


def test_wrappers_that_the_script_does_not_use_do_not_change_the_observation(
    tmp_path: Path,
) -> None:
    (tmp_path / "wrappers.py").write_text(
        "import gymnasium as gym\nfrom gymnasium import spaces\n"
        "class Warp(gym.ObservationWrapper):\n    def __init__(self, env):\n"
        "        self.observation_space = spaces.Box(low=0, high=255, shape=(10, 10, 1),\n"
        "                                            dtype=env.observation_space.dtype)\n"
        "class All(gym.Wrapper):\n    def __init__(self, env):\n        env = Warp(env)\n"
        "class Noop(gym.Wrapper):\n    pass\n"
    )
    script = tmp_path / "train.py"
    text = (
        "from stable_baselines3 import DQN\nimport gymnasium as gym\n"
        "from wrappers import All, Noop\n"
        "env = gym.make('CartPole-v1')\nenv = {wrapper}(env)\n"
        "model = DQN('MlpPolicy', env, buffer_size=1000)\nmodel.learn(10_000)\n"
    )
    script.write_text(text.format(wrapper="Noop"))
    assert plan(script).config["observation"] in (None, "", "4:float32")
    script.write_text(text.format(wrapper="All"))
    assert plan(script).config["observation"] == "10x10x1:uint8"
