"""One reading of the main thread's call stack: the user's frames, and what runs inside each.

Whether a loop trains is seen by what it calls: an optimizer's step, `backward`, a framework's
`learn`, the user's own `train_…` or `update_…`; an environment's `step` is a weaker sign.
"""

import os
import sys
import threading
import types
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from ramledger.interpreter.frames import OURS
from ramledger.interpreter.user_code import is_user_file


class Sign(IntEnum):
    """What a function's name says of training; the larger one says more."""

    NONE = 0
    ACTS = 1
    LEARNS = 2


# the first or last word of a function's name
_LEARNING = frozenset(
    {
        "train", "learn", "fit", "update", "optimize", "optimise", "backward", "backprop",
        "evolve", "mutate", "reinforce",
    }
)  # fmt: skip
_ACTING = frozenset(
    {
        "step", "rollout", "rollouts", "collect", "play", "interact", "act", "explore",
        "simulate",
    }
)  # fmt: skip
# packages whose functions train under such names
_PACKAGES = frozenset(
    {
        "torch", "stable_baselines3", "sb3_contrib", "keras", "tf_keras", "tensorflow",
        "rllib", "gymnasium", "gym", "jax", "optax", "flax", "tianshou", "torchrl",
        "agilerl", "elegantrl", "pufferlib", "lightning", "pytorch_lightning",
        "transformers", "trl", "sklearn", "ale_py", "pettingzoo", "envpool", "brax",
    }
)  # fmt: skip
_OPTIMIZERS = ("/torch/optim/", "/torch/autograd/", "/keras/src/optimizers/", "/optax/")


@dataclass(slots=True)
class CallStack:
    """The user's frames, outermost first; `inside[i]`: the strongest sign in what frame i calls.

    `outer`: how many of the outermost frames were called by no library.
    """

    frames: list[types.FrameType]
    inside: list[Sign]
    outer: int


def read_call_stack(thread_id: int) -> CallStack:
    """What a thread runs now. No frame must be kept."""
    frame = sys._current_frames().get(thread_id)
    frames: list[types.FrameType] = []
    inside: list[Sign] = []
    outer = 0
    strongest = Sign.NONE
    is_called = False  # by a library, what was found last
    while frame is not None:
        code = frame.f_code
        if is_user_file(code.co_filename):
            outer = 1 if is_called else outer + 1
            is_called = False
            frames.append(frame)
            inside.append(strongest)
        elif not code.co_filename.startswith(("<frozen", OURS)):
            is_called = True  # our own wrappers do not count as a library
        if strongest is not Sign.LEARNS:
            strongest = max(strongest, sign_of(code))
        frame = frame.f_back
    frames.reverse()
    inside.reverse()
    return CallStack(frames, inside, outer)


def sign_of(code: types.CodeType) -> Sign:
    """What a function's name and file say of training."""
    return _sign_of(code.co_filename, code.co_name)


@lru_cache(maxsize=8192)
def _sign_of(path: str, name: str) -> Sign:
    if path.startswith(("<frozen", OURS)):
        return Sign.NONE
    if not is_user_file(path):
        if any(part in path for part in _OPTIMIZERS):
            return Sign.LEARNS
        if not _PACKAGES.intersection(path.split("/")):
            return Sign.NONE
    words = name.strip("_").lower().split("_")
    ends = {words[0], words[-1]}
    if ends & _LEARNING:
        return Sign.LEARNS
    return Sign.ACTS if ends & _ACTING else Sign.NONE


def name_of(code: types.CodeType) -> str:
    """`train.py:evaluate`."""
    return f"{os.path.basename(code.co_filename)}:{code.co_name}"


def main_thread_id() -> int:
    """The id of the thread that runs the program's main code."""
    return threading.main_thread().ident or 0
