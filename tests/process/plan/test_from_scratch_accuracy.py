"""Scripts without a framework: what is planned from their text is what they take when they run."""

import subprocess
import sys
from pathlib import Path

import pytest

from ramledger.plan.make_plan import plan
from ramledger.units import MIB

MOST_OFF = 0.2

DEQUE = """\
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn

BUFFER_SIZE = 200_000
BATCH_SIZE = 256


class QNet(nn.Module):
    def __init__(self, inputs, hidden, outputs):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    def forward(self, x):
        return self.net(x)


env = gym.make("CartPole-v1")
q = QNet(env.observation_space.shape[0], 256, env.action_space.n)
target_q = QNet(env.observation_space.shape[0], 256, env.action_space.n)
optimizer = torch.optim.Adam(q.parameters())
memory = deque(maxlen=BUFFER_SIZE)
state, _ = env.reset(seed=0)
for step in range(BUFFER_SIZE):
    action = step % 2
    next_state, reward, done, cut, _ = env.step(action)
    memory.append((state, action, reward, next_state, done))
    state = next_state
    if done or cut:
        state, _ = env.reset()
    if step % 20_000 == 19_999:
        states, *_ = zip(*random.sample(memory, BATCH_SIZE))
        loss = q(torch.tensor(np.array(states))).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
ARRAYS = """\
import numpy as np
import torch
import torch.nn as nn

SIZE = 4_000
BATCH_SIZE = 64


class ReplayBuffer:
    def __init__(self, size, shape):
        self.states = np.zeros((size, *shape), dtype=np.uint8)
        self.next_states = np.zeros((size, *shape), dtype=np.uint8)
        self.position = 0

    def add(self, state, next_state):
        self.states[self.position] = state
        self.next_states[self.position] = next_state
        self.position += 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1), nn.ReLU(), nn.Flatten(),
            nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6),
        )

    def forward(self, x):
        return self.body(x)


buffer = ReplayBuffer(SIZE, (4, 84, 84))
net = Net()
optimizer = torch.optim.Adam(net.parameters())
frame = np.ones((4, 84, 84), dtype=np.uint8)
for _ in range(SIZE):
    buffer.add(frame, frame)
for _ in range(3):
    batch = torch.tensor(buffer.states[:BATCH_SIZE]).float() / 255
    loss = net(batch).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PEAK = """
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
"""


@pytest.mark.parametrize("script", [DEQUE, ARRAYS], ids=["deque", "arrays"])
def test_the_peak_is_the_planned_one(tmp_path: Path, script: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("gymnasium")
    path = tmp_path / "train.py"
    path.write_text(script + PEAK, encoding="utf-8")
    budget = plan(str(path))
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=300, check=True
    )
    peak_bytes = int(done.stdout.split()[-1]) * 1024
    planned = budget.ram.needed.expected
    assert planned == pytest.approx(peak_bytes, rel=MOST_OFF), (planned // MIB, peak_bytes // MIB)
    assert budget.assumed
