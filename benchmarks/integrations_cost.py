"""What each integration adds to the CPU of its framework's own example.

`with / plain` is of runs that take turns, `plain / plain` the noise of two plain ones around it.
`in our code` is what runs in our calls and threads: a lower bound, since what a second thread costs
the first one is not in it. It is judged where the noise is larger than what is judged.
Frameworks with environments of their own are run there; those that are not set up are left out.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROUNDS = int(os.environ.get("RAMLEDGER_BENCH_ROUNDS", "3"))
MOST = 0.02

# counts what runs in our calls, nested ones once, and in our threads
METER = """
import functools, json, os, sys, threading, time
ON = sys.argv[1] == "on"
ours, depth, calls = 0.0, 0, 0
def measured(owner, *names):
    for name in names:
        setattr(owner, name, clocked(getattr(owner, name)))
def clocked(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        global ours, depth, calls
        calls += 1
        began, depth = time.thread_time(), depth + 1
        try:
            return function(*args, **kwargs)
        finally:
            depth -= 1
            if not depth:
                ours += time.thread_time() - began
    return call
@clocked
def nothing(*args, **kwargs):
    pass
def own_calls(count):  # without what measuring them took
    global ours
    before, began = ours, 2_000
    for _ in range(began):
        nothing()
    each = (ours - before) / began
    return before - each * count
def threads():
    named = {t.native_id for t in threading.enumerate() if t.name.startswith("ramledger")}
    used = 0
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as comm:
            if int(task) in named or comm.read().strip() == "ramledger":
                with open(f"/proc/self/task/{task}/schedstat") as times:
                    used += int(times.read().split()[0])
    return used / 1e9
def done(began, extra_cpu=0.0, extra_ours=0.0):
    cpu = time.process_time() - began + extra_cpu
    print(json.dumps({"cpu": cpu, "ours": own_calls(calls) + threads() + extra_ours}))
"""

# the example of its documentation, https://stable-baselines3.readthedocs.io/en/master/modules/ppo.html
SB3 = """
import torch; torch.set_num_threads(1)
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from ramledger.integrations.stable_baselines import MemoryCallback
measured(MemoryCallback, "_on_training_start", "_on_step", "_on_rollout_end", "_on_training_end")
model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=4), device="cpu", seed=1)
began = time.process_time()
model.learn(25_000, callback=MemoryCallback(max_rss="64 GiB", verbose=0) if ON else None)
done(began)
"""

# any callback of SB3 costs its loop something, ours or an empty one
SB3_EMPTY = SB3.replace(
    "from stable_baselines3 import PPO",
    """from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
class Empty(BaseCallback):
    def _on_step(self): return True
""",
).replace("if ON else None", "if ON else Empty()")

# the network and the sizes of https://keras.io/examples/vision/mnist_convnet, 2 of its 15 epochs
KERAS = """
import numpy as np, keras
from ramledger.integrations.keras import MemoryCallback
measured(MemoryCallback, "on_train_begin", "on_epoch_begin", "on_train_batch_begin", "on_epoch_end",
         "on_train_end")
layers = keras.layers
model = keras.Sequential([layers.Input((28, 28, 1)), layers.Conv2D(32, 3, activation="relu"),
    layers.MaxPooling2D(2), layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(2),
    layers.Flatten(), layers.Dropout(0.5), layers.Dense(10, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
x = np.random.default_rng(1).random((54_000, 28, 28, 1), np.float32)
y = np.random.default_rng(2).integers(0, 10, 54_000)
callbacks = [MemoryCallback(max_rss="64 GiB", verbose=0)] if ON else []
began = time.process_time()
model.fit(x, y, batch_size=128, epochs=2, verbose=0, callbacks=callbacks)
done(began)
"""

RLLIB = """
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ramledger.integrations import rllib
from ramledger.integrations.cluster.ray_reporter import Reporter
ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False,
         logging_level="ERROR")
def cpu(worker):
    import time
    return time.process_time()
def begin(worker):
    import time
    from ramledger.integrations.cluster.ray_reporter import Reporter
    report = Reporter.report
    def counted(self):
        began = time.thread_time()
        report(self)
        worker.ours = getattr(worker, "ours", 0.0) + time.thread_time() - began
    Reporter.report = counted
    return time.process_time()
config = (PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=2)
    .training(train_batch_size_per_learner=2_000, num_epochs=4))
if ON:
    config = config.callbacks(rllib.MemoryCallbacks.options(verbose=False))
    measured(rllib.MemoryCallbacks, "on_train_result", "_last_snapshots", "finish")
algorithm = config.build_algo()
algorithm.train()
group = algorithm.env_runner_group
before = sum(group.foreach_env_runner(begin, local_env_runner=False))
began = time.process_time()
for _ in range(25):
    algorithm.train()
workers = sum(group.foreach_env_runner(cpu, local_env_runner=False)) - before
theirs = sum(group.foreach_env_runner(lambda w: getattr(w, "ours", 0.0), local_env_runner=False))
done(began, workers, theirs)
algorithm.stop()
"""

GYMNASIUM = """
import gymnasium
from ramledger.integrations.gymnasium import RecordMemory
from ramledger.integrations import passes
env = gymnasium.make("CartPole-v1")
if ON:
    measured(RecordMemory, "_with_memory", "_end_block")
    env = RecordMemory(env)
env.action_space.seed(1)
env.reset(seed=1)
began = time.process_time()
for _ in range(300_000):
    *_, terminated, truncated, info = env.step(env.action_space.sample())
    if terminated or truncated:
        env.reset()
done(began)
"""

# so does any wrapper of Gymnasium
GYMNASIUM_EMPTY = GYMNASIUM.replace(
    "    env = RecordMemory(env)\n",
    """    env = RecordMemory(env)
else:
    class Empty(gymnasium.Wrapper):
        def step(self, action): return self.env.step(action)
        def reset(self, **options): return self.env.reset(**options)
    env = Empty(env)
""",
)

# `python -m benchmarks.integrations_objective` tells what is paid once from what a trial pays
OPTUNA = """
from benchmarks.integrations_objective import TRIALS, search
began = time.process_time()
found = search(TRIALS, is_held=ON)
here = time.process_time() - began
done(began, found["cpu"] - here, found["cpu"] - found["training"] if ON else 0.0)
"""

LOGGERS = """
import torch; torch.set_num_threads(1)
from ramledger.integrations.loggers import MemoryLogger
class Writer:
    def add_scalar(self, name, value, step): pass
measured(MemoryLogger, "log")
memory = MemoryLogger(Writer()) if ON else None
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 4))
optimizer = torch.optim.Adam(net.parameters())
began = time.process_time()
for step in range(12_000):
    optimizer.zero_grad()
    net(torch.randn(64, 64)).square().mean().backward()
    optimizer.step()
    if ON:
        memory.log(step)
done(began)
"""

PYTEST = """
import pytest
from ramledger.integrations import pytest_plugin
hook = pytest_plugin.pytest_pyfunc_call
@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):  # both halves of the plugin's own, each clocked
    steps = hook(pyfuncitem)
    clocked(steps.__next__)()
    result = yield
    try:
        clocked(steps.send)(result)
    except StopIteration as end:
        return end.value
pytest_plugin.pytest_pyfunc_call = pytest_pyfunc_call
test = "import time\\n\\ndef test_one(n): sum(range(20_000))\\n"
test += "def pytest_generate_tests(metafunc): metafunc.parametrize('n', range(1_000))\\n"
open("test_many.py", "w").write(test)
began = time.process_time()
options = [] if ON else ["-p", "no:ramledger"]
assert pytest.main(["-q", "-p", "no:cacheprovider", *options, "test_many.py"]) == 0
print()
done(began)
"""

CASES = {
    "Stable-Baselines3: PPO on CartPole, 25,000 steps": (SB3, ".venv"),
    "… against an empty callback of SB3": (SB3_EMPTY, ".venv"),
    "Keras: MNIST convnet, 2 epochs": (KERAS, ".venv-tensorflow"),
    "RLlib: PPO on CartPole, 2 runners": (RLLIB, ".venv-ray"),
    "Gymnasium: CartPole, random actions": (GYMNASIUM, ".venv"),
    "… against an empty wrapper of Gymnasium": (GYMNASIUM_EMPTY, ".venv"),
    "Optuna: 6 trials of A2C, held, the first start included": (OPTUNA, ".venv"),
    "loggers: a call in every update": (LOGGERS, ".venv"),
    "pytest: 1,000 tests without markers": (PYTEST, ".venv"),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of one run, and of it what was ours."""

    cpu: float
    ours: float


def measure(code: str, python: Path, state: str) -> Cost:
    """One run in a fresh process and folder."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, "-c", METER + code, state],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3",
                              "OMP_NUM_THREADS": "1"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-1500:])
    line = next(x for x in reversed(done.stdout.splitlines()) if x.startswith('{"cpu"'))
    return Cost(**json.loads(line))


def main(wanted: list[str]) -> int:
    print("| integration | CPU plain | with / plain | plain / plain | in our code | judged by |")
    print("|---|---|---|---|---|---|")
    missed = []
    for title, (code, venv) in CASES.items():
        python = ROOT / venv / "bin" / "python"
        if wanted and not any(word in title.lower() for word in wanted):
            continue
        if not python.exists():
            print(f"| {title} | {venv} is not set up | | | | |")
            continue
        rounds = [
            [measure(code, python, state) for state in ("off", "on", "off")] for _ in range(ROUNDS)
        ]
        plain = statistics.median(run.cpu for first, _, last in rounds for run in (first, last))
        ratio = statistics.median(2 * on.cpu / (a.cpu + b.cpu) for a, on, b in rounds)
        noise = statistics.median(max(a.cpu, b.cpu) / min(a.cpu, b.cpu) for a, _, b in rounds)
        seen = statistics.median(on.ours / on.cpu for _, on, _ in rounds)
        shown = f"{seen:.1%}" if seen else ""
        is_noisy = bool(seen) and noise - 1 > MOST
        added, by = (seen, "in our code") if is_noisy else (ratio - 1, "with / plain")
        row = (title, f"{plain:.1f} s", f"{ratio:.3f}", f"{noise:.3f}", shown, by)
        print(f"| {' | '.join(row)} |", flush=True)
        if added > MOST:
            missed.append(title)
    for title in missed:
        print(f"above {MOST:.0%}: {title}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
