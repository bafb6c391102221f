"""Stable-Baselines3 models save themselves when memory runs out, as if the script had asked.

The model and its optimizer go into one file, without the replay buffer: SB3 would pickle it as a
whole, and need the memory that is missing.
"""

import functools
import os
import types
import weakref
from collections.abc import Callable
from typing import Any

from ramledger.interpreter.loaded_modules import attributes_of, namespace, set_attribute

MODULE = "stable_baselines3.common.base_class"


class Rescue:
    """The models that are learning, and the folder to save them in."""

    def __init__(
        self,
        folder: str,
        say: Callable[[str], None],
        on_pressure: Callable[[Callable[[], None]], object],
    ) -> None:
        self._folder = folder
        self._on_pressure = on_pressure
        self._say = say
        self._models: weakref.WeakSet[Any] = weakref.WeakSet()

    def watch(self, module: types.ModuleType) -> None:
        """Note every model that starts to learn from now on."""
        owner: Any = namespace(module).get("BaseAlgorithm")
        begin = attributes_of(owner).get("_setup_learn")  # every algorithm calls it
        if type(begin) is not types.FunctionType:
            return

        @functools.wraps(begin)
        def begin_known(model: Any, *args: Any, **kwargs: Any) -> Any:
            self._models.add(model)
            self._on_pressure(self.save_all)
            return begin(model, *args, **kwargs)

        set_attribute(owner, "_setup_learn", begin_known)

    def save_all(self) -> None:
        """Write one file per model, whole or not at all."""
        os.makedirs(self._folder, exist_ok=True)
        for model in list(self._models):
            name = f"{type(model).__name__}-{model.num_timesteps}"
            path = os.path.join(self._folder, f"{name}.zip")
            partial = os.path.join(self._folder, f".{name}.partial.zip")
            model.save(partial)
            os.replace(partial, path)
            self._say(f"saved {path}")
