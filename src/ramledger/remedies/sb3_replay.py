"""`replay`: replay buffers of stable-baselines3 become ours when they are made, without new code.

Only the library's own classes: a subclass may rely on their arrays, so it is left as it is.
"""

import types
from typing import Any

from ramledger.hooks.import_costs import on_import
from ramledger.interpreter.loaded_modules import set_attribute
from ramledger.remedies.method_wrapping import Method, wrap_method
from ramledger.remedies.random_states import random_numbers_kept
from ramledger.remedies.reporting import Report
from ramledger.version_numbers import release

# CleanRL has a copy of the same file
_BUFFERS = ("stable_baselines3.common.buffers", "cleanrl_utils.buffers")
_ALGORITHM = "stable_baselines3.common.off_policy_algorithm"
_CLASSES = ("ReplayBuffer", "DictReplayBuffer", "NStepReplayBuffer")
_OLDEST = "2.0"


def install(option: str, report: Report) -> None:
    """When the program imports them; `option` is the compression, if any."""
    for name in _BUFFERS:
        on_import(name, lambda module: _replace(module, option, report))
    on_import(_ALGORITHM, _save_beside)


def _replace(module: types.ModuleType, compress: str, report: Report) -> None:
    names = vars(module)
    base = names.get("ReplayBuffer")
    if not isinstance(base, type) or not _is_known(report):
        return
    exact = {names[name]: name for name in _CLASSES if isinstance(names.get(name), type)}

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        # without arguments it is being unpickled, and gets its own arrays
        if args or kwargs:
            chosen = _chosen(cls, exact, compress, report)
            if chosen is not None:
                # Python itself calls __init__ of a subclass, and of nothing else
                is_own = issubclass(chosen, cls)
                return object.__new__(chosen) if is_own else chosen(*args, **kwargs)
        return object.__new__(cls)

    set_attribute(base, "__new__", staticmethod(new))


def _is_known(report: Report) -> bool:
    from importlib.metadata import version

    found = version("stable_baselines3")
    if release(found) < release(_OLDEST):
        report.left(f"stable-baselines3 {found} is older than {_OLDEST}: its buffers stay")
        return False
    return True


def _chosen(cls: type, exact: dict[type, str], compress: str, report: Report) -> type | None:
    name = exact.get(cls)
    if name is None:
        if not cls.__module__.startswith("ramledger."):
            report.left(f"{cls.__name__} is a buffer class of its own: it stays as it is")
        return None
    try:
        with random_numbers_kept():
            from ramledger.remedies.applied_buffer import applied_class

            return applied_class(name, compress, report)
    except Exception as error:  # a missing extra, or another version's arguments
        report.left(f"{name} stays as it is: {type(error).__name__}: {error}"[:300])
        return None


def _save_beside(module: types.ModuleType) -> None:
    """`model.save_replay_buffer(path)` saves our buffer to a folder beside that file."""

    def around(save: Method) -> Method:
        def save_replay_buffer(self: Any, path: Any) -> Any:
            buffer = self.replay_buffer
            if getattr(buffer, "is_applied_by_ramledger", False) and isinstance(path, str):
                buffer.checkpoint = buffer.checkpoint or f"{path.removesuffix('.pkl')}.replay"
            return save(self, path)

        return save_replay_buffer

    wrap_method(module, "OffPolicyAlgorithm", "save_replay_buffer", around)
