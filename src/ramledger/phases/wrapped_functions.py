"""Phases by name: functions of the user and methods of frameworks, wrapped when they are loaded.

A wrapped function behaves as before; each call is a pass through a phase. Nothing is imported:
modules are searched once the program has loaded them.
"""

import functools
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from ramledger.interpreter.attributes import instance_dict, is_class
from ramledger.interpreter.frames import frame_locals
from ramledger.interpreter.loaded_modules import attributes_of, namespace, set_attribute, text_of
from ramledger.interpreter.type_facts import module_of, qualified_name
from ramledger.interpreter.user_code import is_user_file
from ramledger.phases.phase_log import FRAMEWORK, NAMED, TRIAL, PhaseLog
from ramledger.phases.progress import NOTHING, Progress

_MARK = "__ramledger_phase__"


Reader = Callable[[Any, types.FrameType], Progress]  # of a method's object, and its caller


def wrap(
    function: Callable[..., Any],
    log: PhaseLog,
    name: str,
    origin: str,
    progress: Reader | None = None,
) -> Any:
    """`function`, each call of it a pass through phase `name`."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        known = progress(args[0], sys._getframe(1)) if progress is not None and args else None
        log.enter(name, None, origin, known)
        try:
            return function(*args, **kwargs)
        finally:
            log.leave()

    setattr(wrapped, _MARK, True)
    return wrapped


class NamedPhases:
    """`--phase evaluate_population --phase module:Class.method`: found as modules appear."""

    def __init__(self, names: Iterable[str], log: PhaseLog) -> None:
        self._names = tuple(names)
        self._log = log
        self.found: set[str] = set()

    def wrap_new(self) -> None:
        """Wrap functions of modules that were loaded since the last call."""
        if not self._names:
            return
        for module in list(sys.modules.values()):
            file = text_of(module, "__file__")
            if file and is_user_file(file):
                self._wrap_matches(module)

    def _wrap_matches(self, module: types.ModuleType) -> None:
        own_name = text_of(module, "__name__")
        for name in self._names:
            where, _, path = name.rpartition(":")
            if where and own_name != where and not own_name.endswith("." + where):
                continue
            self._wrap_in(module, path, name)

    def _wrap_in(self, module: types.ModuleType, path: str, name: str) -> None:
        owner_name, _, attribute = path.rpartition(".")
        owners: list[Any] = [module] if not owner_name else []
        own_name = text_of(module, "__name__")
        for value in list(namespace(module).values()):
            is_ours = is_class(value) and module_of(value) == own_name
            if is_ours and owner_name in ("", qualified_name(value)):
                owners.append(value)
        for owner in owners:
            function = attributes_of(owner).get(attribute)
            if type(function) is types.FunctionType and not hasattr(function, _MARK):
                wrapped = wrap(function, self._log, path.rpartition(".")[2], NAMED)
                set_attribute(owner, attribute, wrapped)
                self.found.add(name)


def _progress_of_model(model: Any, _: types.FrameType) -> Progress:
    """Of a Stable-Baselines3 model, at the start of a rollout."""
    fields = instance_dict(model) or {}
    numbers = {
        name: value
        for name in ("num_timesteps", "_total_timesteps", "n_steps", "n_envs")
        if type(value := fields.get(name)) is int and value >= 0
    }
    # off-policy models have n_steps, too: those of their returns
    is_on_policy = "rollout_buffer" in fields
    total, rollout = numbers.get("_total_timesteps"), numbers.get("n_steps", 0) * is_on_policy
    rollout *= numbers.get("n_envs", 1)
    last = -(-total // rollout) - 1 if total and rollout else None
    return Progress(numbers.get("num_timesteps"), total, last)


def _progress_of_study(_: Any, caller: types.FrameType) -> Progress:
    trials = dict(frame_locals(caller)).get("n_trials")
    # a study of several threads asks each of them for one trial after the other
    return Progress(last_generation=trials - 1) if type(trials) is int and trials > 1 else NOTHING


_PROGRESS: dict[str, Reader] = {
    "collect_rollouts": _progress_of_model,
    "train": _progress_of_model,
    "_run_trial": _progress_of_study,
}

# module -> [(class or '', method, phase)]: what each framework's iteration is made of
FRAMEWORK_METHODS: dict[str, list[tuple[str, str, str]]] = {
    "stable_baselines3.common.on_policy_algorithm": [
        ("OnPolicyAlgorithm", "collect_rollouts", "collect"),
    ],
    "stable_baselines3.common.off_policy_algorithm": [
        ("OffPolicyAlgorithm", "collect_rollouts", "collect"),
    ],
    "optuna.study._optimize": [("", "_run_trial", TRIAL)],
    "stable_baselines3.common.base_class": [("BaseAlgorithm", "save", "save")],
    "stable_baselines3.common.evaluation": [("", "evaluate_policy", "evaluate")],
    "stable_baselines3.ppo.ppo": [("PPO", "train", "train")],
    "stable_baselines3.a2c.a2c": [("A2C", "train", "train")],
    "stable_baselines3.dqn.dqn": [("DQN", "train", "train")],
    "stable_baselines3.sac.sac": [("SAC", "train", "train")],
    "stable_baselines3.td3.td3": [("TD3", "train", "train")],
    "sb3_contrib.ppo_recurrent.ppo_recurrent": [
        ("RecurrentPPO", "collect_rollouts", "collect"),
        ("RecurrentPPO", "train", "train"),
    ],
    "sb3_contrib.ppo_mask.ppo_mask": [
        ("MaskablePPO", "collect_rollouts", "collect"),
        ("MaskablePPO", "train", "train"),
    ],
    "sb3_contrib.crossq.crossq": [("CrossQ", "train", "train")],
    "sb3_contrib.qrdqn.qrdqn": [("QRDQN", "train", "train")],
    "sb3_contrib.tqc.tqc": [("TQC", "train", "train")],
    "sb3_contrib.trpo.trpo": [("TRPO", "train", "train")],
    "ray.rllib.env.single_agent_env_runner": [("SingleAgentEnvRunner", "sample", "sample")],
    "ray.rllib.env.multi_agent_env_runner": [("MultiAgentEnvRunner", "sample", "sample")],
    "ray.rllib.core.learner.learner": [("Learner", "update", "update")],
    "ray.rllib.algorithms.algorithm": [("Algorithm", "step", "iteration")],
}


def wrap_framework(module: types.ModuleType, log: PhaseLog) -> None:
    """Wrap the methods of a framework's module that has just been imported."""
    for class_name, method, phase in FRAMEWORK_METHODS.get(text_of(module, "__name__"), ()):
        owner: Any = namespace(module).get(class_name) if class_name else module
        function = attributes_of(owner).get(method)
        if type(function) is types.FunctionType and not hasattr(function, _MARK):
            set_attribute(
                owner, method, wrap(function, log, phase, FRAMEWORK, _PROGRESS.get(method))
            )
