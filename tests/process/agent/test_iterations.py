"""Iterations of real programs: counted once, by whoever knows best, up to the end of training."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from ramledger.events import (
    Event,
    ExpectationEvent,
    GenerationEvent,
    IterationsEvent,
    PhaseEvent,
    ProgramEndEvent,
)
from ramledger.recording import Recording
from ramledger.run.model import Run
from ramledger.run.timeline import build_timeline
from tests.process.recorder.test_run_recorder import record
from tests.support.terminals import Terminal, without_escapes

COMMAND = Path(sys.executable).with_name("ramledger")

PPO = """
import time, numpy as np, torch
from torch import nn
torch.set_num_threads(1)

class Market:
    def reset(self):
        self.t = 0
        return np.zeros(3, np.float32)
    def step(self, action):
        self.t += 1
        return np.ones(3, np.float32), 1.0, self.t >= 60

def parse_files():
    rows = []
    for number in range(12):
        rows.append([float(cell) for cell in ",".join(map(str, range(20_000))).split(",")])
        time.sleep(0.1)
    return rows

class Agent:
    def __init__(self):
        self.net = nn.Linear(3, 2)
        self.optimizer = torch.optim.Adam(self.net.parameters())
    def act(self, observation):
        with torch.no_grad():
            return int(self.net(torch.as_tensor(observation)).argmax())
    def update(self, observations):
        for _ in range(10):
            loss = self.net(observations).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            time.sleep(0.01)

def collect(agent, env, count):
    found, observation = [], env.reset()
    for _ in range(count):
        observation, _, done = env.step(agent.act(observation))
        found.append(observation)
        if done:
            observation = env.reset()
    time.sleep(0.1)
    return torch.as_tensor(np.array(found))

def main(total_timesteps=16 * 256, n_steps=256):
    parse_files()
    agent, env = Agent(), Market()
    for step in range(0, total_timesteps, n_steps):
        batch = collect(agent, env, n_steps)
        agent.update(batch)
    return agent, env

agent, env = main()
for episode in range(8):
    observation = env.reset()
    time.sleep(0.2)
    env.step(agent.act(observation))
"""


def counted(recording: Recording) -> list[GenerationEvent]:
    """Those that a reader takes for iterations."""
    return list(Run.from_recording(recording).of_type(GenerationEvent))


def counters(recording: Recording) -> list[str]:
    return [event.counted_by for event in recording.of_type(IterationsEvent)]


def test_a_hand_written_training_after_parsing_and_before_an_evaluation(tmp_path: Path) -> None:
    recording = record(tmp_path, PPO)
    assert counters(recording)[-1].startswith("train.py:main, line ")
    found = counted(recording)
    assert all(one.generation < other.generation for one, other in pairwise(found))
    assert {event.last_generation for event in found} == {16}
    assert found[-1].generation == 16 and len(found) >= 12
    # reported when the next pass begins: all its steps are made
    assert all(event.steps == event.generation * 256 for event in found)
    assert {event.planned_steps for event in found} == {16 * 256}
    [end] = recording.of_type(ProgramEndEvent)
    assert end.since_training_seconds > 1.0
    timeline = build_timeline(Run.from_recording(recording))
    assert timeline.samples[-1][0] <= end.t - end.since_training_seconds
    assert {phase.name for phase in timeline.phases} == {"collect", "update"}


POPULATION = """
import time
class TradingEnvironment: ...
class Trainer:
    def __init__(self):
        self.envs = [TradingEnvironment(), TradingEnvironment()]
    def evaluate_population(self):
        for agent in range(4):
            time.sleep(0.02)
            episode = agent
    def train_population(self):
        for agent in range(4):
            time.sleep(0.02)
            epoch = agent
    def evolve_population(self):
        time.sleep(0.02)
def main():
    for column in range(20):
        time.sleep(0.06)
        parsed = column
    trainer = Trainer()
    for generation in range(14):
        trainer.evaluate_population()
        trainer.train_population()
        trainer.evolve_population()
if __name__ == "__main__":
    main()
    for plot in range(10):
        time.sleep(0.05)
        drawn = plot
"""
NAMES = ["evaluate_population", "train_population", "evolve_population"]


def test_phases_that_the_user_names_number_all_iterations(tmp_path: Path) -> None:
    recording = record(tmp_path, POPULATION, phases=NAMES, expectations={"TradingEnvironment": 2})
    assert counters(recording)[-1] == "phases"
    found = counted(recording)
    assert [event.generation for event in found] == list(range(14))
    assert not any(event.is_final for event in found)
    run = Run.from_recording(recording)
    assert {event.name for event in run.of_type(PhaseEvent)} == set(NAMES)
    assert not list(recording.of_type(ExpectationEvent))
    [end] = recording.of_type(ProgramEndEvent)
    assert end.since_training_seconds >= 0.5
    assert found[-1].t == pytest.approx(end.t - end.since_training_seconds, abs=0.01)


def test_the_growth_of_phases_and_between_them_is_that_of_the_process(tmp_path: Path) -> None:
    kept = POPULATION.replace(
        "        trainer.train_population()\n",
        "        trainer.train_population()\n        between = bytearray(9 << 20)\n"
        "        trainer.evolve_population()\n        trainer.held = bytearray(5 << 20)\n",
    )
    run = Run.from_recording(record(tmp_path, kept, phases=NAMES))
    events = list(run.of_type(GenerationEvent))
    booked = sum(event.net_growth_bytes or 0 for event in run.of_type(PhaseEvent))
    booked += sum(sum(event.net_growth_bytes.values()) for event in events)
    pid = run.main_pid
    shown = sum(total.growth_bytes for total in run.iterations.phases(pid))
    assert shown + run.iterations.between_phases_bytes(pid) == booked
    # the first measurement is that of the first phase's start
    first = next(event.before_bytes for event in run.of_type(PhaseEvent))
    last = max(event.after_bytes for event in run.of_type(PhaseEvent) if event.generation == 13)
    assert booked == pytest.approx(last - first, abs=2 << 20)  # resident pages of files move


SB3 = """
import torch
from stable_baselines3 import PPO
torch.set_num_threads(1)
model = PPO("MlpPolicy", "CartPole-v1", device="cpu", n_steps=256, n_epochs=4)
model.learn(1200)
"""


def test_all_rollouts_of_stable_baselines_are_iterations(tmp_path: Path) -> None:
    found = counted(record(tmp_path, SB3))
    assert [event.generation for event in found] == [0, 1, 2, 3, 4]
    assert [event.steps for event in found] == [256, 512, 768, 1024, 1280]
    assert {(event.planned_steps, event.last_generation) for event in found} == {(1200, 4)}


PLAYS_AFTERWARDS = """
import time, torch
from stable_baselines3 import DQN
torch.set_num_threads(1)
model = DQN("MlpPolicy", "CartPole-v1", device="cpu", learning_starts=50, train_freq=4)
model.learn(1200)
env = model.get_env()
state = env.reset()
for step in range(400):
    action, _ = model.predict(state, deterministic=True)
    state, reward, done, info = env.step(action)
    time.sleep(0.005)
"""


def test_playing_after_the_training_is_no_training_loop(tmp_path: Path) -> None:
    recording = record(tmp_path, PLAYS_AFTERWARDS)
    assert counters(recording)[-1] == "collect"
    found = counted(recording)
    assert found[-1].generation == 299  # of four steps each
    assert {event.last_generation for event in found} == {None}
    # where the end is follows from the steps of an iteration
    run = Run(recording.header)
    early = [event for event in found if event.generation < 150]
    for event in early:
        run.take(event)
    assert run.iterations.planned(found[0].pid).last_iteration == pytest.approx(299, abs=3)


TRIALS = """
import time, optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
def objective(trial):
    for split in range(3):
        for epoch in range(4):
            time.sleep(0.02)
            score = trial.suggest_float("x", 0, 1)
    return score
optuna.create_study().optimize(objective, n_trials=7)
"""


def test_trials_of_optuna_are_iterations(tmp_path: Path) -> None:
    recording = record(tmp_path, TRIALS)
    assert counters(recording)[-1] == "trial"
    found = counted(recording)
    assert [event.generation for event in found] == list(range(7))
    assert {event.last_generation for event in found} == {6}


BARS = """
import time
from tqdm import tqdm
def train_step():
    time.sleep(0.05)
for epoch in tqdm(range(240), desc="train"):
    train_step()
"""


def shown_lines(text: str) -> list[str]:
    """What stands at the beginning of a line, or after a return to it."""
    return [part for line in text.split("\n") for part in line.split("\r")]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_beside_a_bar_the_log_has_lines_of_its_own(tmp_path: Path, is_terminal: bool) -> None:
    script = tmp_path / "train.py"
    script.write_text(BARS)
    command = [str(COMMAND), "run", "--plain", "--", sys.executable, str(script)]
    if is_terminal:
        with Terminal(command, cwd=tmp_path) as terminal:
            assert terminal.wait(120) == 0
        text = without_escapes(terminal.shown)
    else:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        text = done.stderr
    said = [part for part in shown_lines(text) if "ramledger: iteration" in part]
    assert 2 <= len(said) <= 12
    assert all(part.startswith("ramledger: iteration ") for part in said)
    assert all(" of 239 at " in part for part in said)
    numbers = [int(part.split()[2]) for part in said]
    assert numbers == sorted(set(numbers))


def test_events_of_the_numbering_are_few(tmp_path: Path) -> None:
    """However many loops a program has, it changes its mind rarely."""
    events: list[Event] = list(record(tmp_path, POPULATION).of_type(IterationsEvent))
    assert 1 <= len(events) <= 3
