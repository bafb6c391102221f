"""What glibc's variables do to peak, end and CPU time of programs of different shapes.

`python -m benchmarks.malloc_settings [NAME…]`; the table is in docs/remedies.md.
"""

import os
import subprocess
import sys

SETTINGS = (
    "",
    "MALLOC_ARENA_MAX=2",
    "MALLOC_MMAP_THRESHOLD_=1048576",
    "MALLOC_MMAP_THRESHOLD_=4194304",
    "MALLOC_TOP_PAD_=67108864",
)

# 48 threads that take turns with 22 MiB of blocks of 16 to 96 KiB
THREADS = """
import threading
import numpy as np
sizes = np.random.default_rng(0).integers(2_000, 12_000, 4000)
turn, barrier, kept = threading.Semaphore(2), threading.Barrier(48), []

def work(number):
    first = number * 37 % 2000
    for _ in range(6):
        with turn:
            rows = [np.ones(size) for size in sizes[first : first + 400]]
            kept.append(rows[200])
            del rows
        barrier.wait()

threads = [threading.Thread(target=work, args=(k,)) for k in range(48)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""

# eight networks that are updated in turns, with batches of 256 to 4,096
UPDATES = """
import random, torch
from torch.nn import Linear, ReLU, Sequential
torch.manual_seed(0)
random.seed(0)
nets = [
    Sequential(Linear(256, 1024), ReLU(), Linear(1024, 1024), ReLU(), Linear(1024, 1))
    for _ in range(8)
]
optimizers = [torch.optim.Adam(net.parameters()) for net in nets]
log = []
for step in range(60):
    net, optimizer = nets[step % 8], optimizers[step % 8]
    batch = torch.randn(random.choice([256, 1024, 2048, 4096]), 256)
    loss = net(batch).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log.append(batch[:4].tolist())
"""

PPO = """
import gymnasium, numpy as np
from stable_baselines3 import PPO

class Images(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (3, 84, 84), np.uint8)
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros((3, 84, 84), np.uint8), {}

    def step(self, action):
        self.steps += 1
        image = np.full((3, 84, 84), self.steps % 255, np.uint8)
        return image, 1.0, self.steps >= 64, False, {}

settings = {"n_steps": 512, "batch_size": 256, "n_epochs": 3, "seed": 0, "device": "cpu"}
PPO("CnnPolicy", Images(), **settings).learn(2048)
"""

# temporary arrays of 1 to 32 MiB between small ones that stay
BLOCKS = """
import random
import numpy as np
random.seed(0)
kept = []
for _ in range(600):
    first = np.ones(int(2 ** random.uniform(17, 22)))
    second = first * 2.0
    kept.append(np.ones(random.randrange(1000, 20000)))
    if len(kept) > 200: del kept[random.randrange(100)]
    del first, second
"""

# 100,000 small objects, pickled and loaded again
OBJECTS = """
import pickle
data = [{"a": [j, j + 0.5, str(j) * 4], "b": bytes(700)} for j in range(100_000)]
text = pickle.dumps(data)
for _ in range(4):
    again = pickle.loads(text)
    del again
del data
"""

SHAPES = {"threads": THREADS, "updates": UPDATES, "ppo": PPO, "blocks": BLOCKS, "objects": OBJECTS}
_SAY = """
import resource
used = resource.getrusage(resource.RUSAGE_SELF)
resident = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
print(used.ru_maxrss >> 10, resident >> 20, used.ru_utime + used.ru_stime)
"""


def measured(program: str, setting: str) -> tuple[int, int, float]:
    """Peak and end of RSS in MiB, and seconds of CPU."""
    name, _, value = setting.partition("=")
    environ = os.environ | {"OMP_NUM_THREADS": "1"} | ({name: value} if name else {})
    words = [sys.executable, "-c", program + _SAY]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    peak, end, seconds = done.stdout.split()[-3:]
    return int(peak), int(end), float(seconds)


def main() -> None:
    for name in sys.argv[1:] or SHAPES:
        for setting in SETTINGS:
            peak, end, seconds = measured(SHAPES[name], setting)
            print(f"{name:8} {setting or '-':32} {peak:5} MiB peak {end:5} end {seconds:6.2f} s")


if __name__ == "__main__":
    main()
