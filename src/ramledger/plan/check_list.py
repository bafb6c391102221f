"""Every check that a plan may print: its severities, and what it finds. docs/plan.md shows it."""

from ramledger.plan.budget import Severity

_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

CHECKS: dict[str, tuple[tuple[Severity, ...], str]] = {
    "batch-larger-than-buffer": ((_ERROR,), "a batch that no rollout or buffer can fill"),
    "batch-not-dividing": ((_WARNING,), "`n_steps` × `n_envs` is no multiple of `batch_size`"),
    "less-than-one-rollout": ((_WARNING,), "fewer steps in all than one rollout collects"),
    "never-learns": ((_ERROR,), "`learning_starts` lies beyond the last step"),
    "buffer-never-full": ((_NOTE,), "a capacity that the planned steps do not reach"),
    "frame-stack": ((_NOTE,), "each frame is stored once in every stack that it is part of"),
    "replay-next-obs": ((_NOTE,), "next observations repeat the observations"),
    "replay-options-contradict": ((_ERROR,), "options of a buffer that refuse each other"),
    "rollout-float32": ((_WARNING,), "stable-baselines3 before 2.7.1 stores images as float32"),
    "rollout-swap-copy": ((_WARNING,), "several environments: a rollout is copied at each update"),
    "subproc-start-method": ((_WARNING,), "each worker of environments imports torch anew"),
    "thread-oversubscription": ((_WARNING,), "more threads and workers than cores"),
    "few-envs": ((_NOTE,), "cores and RAM are there for more environments"),
    "episode-longer-than-rollout": ((_NOTE,), "episodes are cut by the end of a rollout"),
    "rollout-longer-than-episodes": ((_NOTE,), "a rollout holds many episodes"),
    "callback-not-registered": ((_ERROR,), "a callback is built and never handed to `learn`"),
    "no-replay-buffer": ((_ERROR, _NOTE), "an on-policy algorithm has no replay buffer"),
    "no-target-network": ((_ERROR,), "target networks that the algorithm does not have"),
    "save-replay-cost": ((_WARNING,), "what checkpoints of the replay buffer cost"),
    "save-frequency": ((_NOTE,), "callbacks count calls, and a call is a step of every env"),
    "never-saves": ((_WARNING,), "the first checkpoint lies beyond the last step"),
    "elegantrl-buffer": ((_NOTE,), "ElegantRL's `buffer_size` is that of each environment"),
    "search-range": ((_ERROR, _WARNING, _NOTE), "the largest corner of an Optuna search"),
    "vram-unknown": ((_NOTE,), "a GPU is used, and its VRAM was not given"),
}


def table() -> str:
    """As Markdown."""
    lines = ["| check | severity | finds |", "|---|---|---|"]
    for name, (severities, finds) in CHECKS.items():
        lines.append(f"| `{name}` | {' or '.join(severities)} | {finds} |")
    return "\n".join(lines)
