"""One stable-baselines3 training built from a plan's config; prints what the kernel says it took.

Usage: plan_job.py '{"algorithm": "PPO", "observation": "71", "action": "discrete:8", …}'
"""

import json
import os
import re
import sys
from typing import Any

import gymnasium
import numpy as np


def space_of(text: str) -> gymnasium.Space[Any]:
    """An observation space from text such as 84x84x3:uint8."""
    shape, _, dtype = text.partition(":")
    numbers = tuple(int(number) for number in shape.split("x"))
    if dtype == "uint8":
        return gymnasium.spaces.Box(0, 255, numbers, np.uint8)
    kind = np.float64 if dtype == "float64" else np.float32
    return gymnasium.spaces.Box(-1, 1, numbers, kind)


def action_space_of(text: str) -> gymnasium.Space[Any]:
    """An action space from text such as discrete:7."""
    kind, _, sizes = text.partition(":")
    numbers = [int(number) for number in sizes.split(",")]
    if kind == "discrete":
        return gymnasium.spaces.Discrete(numbers[0])
    if kind == "box":
        return gymnasium.spaces.Box(-1, 1, (numbers[0],), np.float32)
    if kind == "multidiscrete":
        return gymnasium.spaces.MultiDiscrete(numbers)
    return gymnasium.spaces.MultiBinary(numbers[0])


class NoiseEnv(gymnasium.Env[Any, Any]):
    """Observations that differ, rewards that do not, episodes of a fixed length."""

    def __init__(self, job: dict[str, Any]) -> None:
        found = job["observation"]
        if isinstance(found, dict):
            parts = {name: space_of(text) for name, text in found.items()}
            self.observation_space = gymnasium.spaces.Dict(parts)
        else:
            self.observation_space = space_of(found)
        self.action_space = action_space_of(job["action"])
        self._length = int(job.get("episode_length") or 200)
        self._at = 0

    def _observation(self) -> Any:
        space = self.observation_space
        if isinstance(space, gymnasium.spaces.Dict):
            return {name: self._filled(part) for name, part in space.items()}
        return self._filled(space)

    def _filled(self, space: Any) -> Any:
        high = 255 if space.dtype == np.uint8 else 1
        return np.full(space.shape, self._at % 251 % (high + 1), space.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._at = 0
        return self._observation(), {}

    def step(self, action: Any) -> Any:
        self._at += 1
        return self._observation(), 1.0, False, self._at >= self._length, {}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.zeros(len(achieved), np.float32)


def vectorized(job: dict[str, Any]) -> Any:
    """The environments, in this process or in workers, frames stacked."""
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

    makers: list[Any] = [lambda: NoiseEnv(job) for _ in range(job.get("n_envs", 1))]
    if job.get("vec_env") == "subproc":
        envs: Any = SubprocVecEnv(makers, start_method=job["start_method"])
    else:
        envs = DummyVecEnv(makers)
    frames = job.get("frame_stack", 1)
    return VecFrameStack(envs, frames) if frames > 1 else envs


SETTINGS = (
    "n_steps", "batch_size", "n_epochs", "buffer_size", "learning_starts", "train_freq",
    "gradient_steps", "optimize_memory_usage",
)  # fmt: skip


def arguments(job: dict[str, Any]) -> dict[str, Any]:
    """The constructor's arguments."""
    found = {name: job[name] for name in SETTINGS if name in job}
    network = {
        name: job[name]
        for name in ("net_arch", "lstm_hidden_size", "n_critics", "n_quantiles")
        if name in job
    }
    found["policy_kwargs"] = network
    if job.get("handle_timeout_termination") is False:
        found["replay_buffer_kwargs"] = {"handle_timeout_termination": False}
    if job.get("her"):
        from stable_baselines3 import HerReplayBuffer

        found["replay_buffer_class"] = HerReplayBuffer
    return found


def build(job: dict[str, Any]) -> Any:
    """The model."""
    import stable_baselines3

    name = job["algorithm"]
    if hasattr(stable_baselines3, name):
        kind = getattr(stable_baselines3, name)
    else:
        import sb3_contrib

        kind = getattr(sb3_contrib, name)
    return kind(job["policy"], vectorized(job), device="cpu", **arguments(job))


def buffer_bytes(model: Any) -> int:
    """Every array of the model's buffer."""
    buffer = getattr(model, "replay_buffer", None) or getattr(model, "rollout_buffer", None)
    total = 0
    for value in vars(buffer).values():
        parts = value.values() if isinstance(value, dict) else [value]
        total += sum(part.nbytes for part in parts if isinstance(part, np.ndarray))
    return total


def kernel_says(name: str, pid: int | str = "self") -> int:
    """A field of /proc/PID/status in bytes."""
    with open(f"/proc/{pid}/status") as status:
        found = re.search(rf"^{name}:\s+(\d+) kB", status.read(), re.M)
    return int(found[1]) * 1024 if found else 0


def workers_bytes() -> int:
    """What the descendants add: PSS of the whole tree beyond the RSS of this process."""
    pending, total = [os.getpid()], 0
    while pending:
        pid = pending.pop()
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as children:
                pending += [int(child) for child in children.read().split()]
            with open(f"/proc/{pid}/smaps_rollup") as rollup:
                match = re.search(r"^Pss:\s+(\d+) kB", rollup.read(), re.M)
            total += int(match[1]) * 1024 if match else 0
        except OSError:
            continue
    return max(total - kernel_says("VmRSS"), 0)


def main() -> None:
    job = json.loads(sys.argv[1])
    import torch

    torch.set_num_threads(job.get("torch_threads", 1))
    model = build(job)
    allocated = buffer_bytes(model)
    parameters = sum(p.numel() * p.element_size() for p in model.policy.parameters())
    model.learn(job["total_steps"])
    report = {
        "peak_bytes": kernel_says("VmHWM"),
        "workers_bytes": workers_bytes(),
        "buffer_bytes": allocated,
        "parameter_bytes": parameters,
    }
    print(json.dumps(report), flush=True)
    model.get_env().close()
    os._exit(0)


if __name__ == "__main__":
    main()
