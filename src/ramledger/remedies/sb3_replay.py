"""`replay`: replay buffers of stable-baselines3 become ours when they are made, without new code.

Only the library's own classes: a subclass may rely on their arrays, so it is left as it is.
"""

import gc
import os
import sys
import types
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ramledger.errors import ConfigError
from ramledger.hooks.import_costs import on_import
from ramledger.interpreter.loaded_modules import set_attribute
from ramledger.remedies.method_wrapping import Method, wrap_method
from ramledger.remedies.random_states import random_numbers_kept
from ramledger.remedies.reporting import Report
from ramledger.version_numbers import release

# CleanRL has a copy of the same file
_BUFFERS = ("stable_baselines3.common.buffers", "cleanrl_utils.buffers")
_HER = "stable_baselines3.her.her_replay_buffer"
_ALGORITHM = "stable_baselines3.common.off_policy_algorithm"
_CLASSES = ("ReplayBuffer", "DictReplayBuffer", "NStepReplayBuffer", "HerReplayBuffer")
_OLDEST = "2.0"


def install(option: str, report: Report) -> None:
    """When the program imports them; `option` is the compression, if any."""
    here = [sys.modules[name] for name in (*_BUFFERS, _HER) if name in sys.modules]
    for name in _BUFFERS:
        on_import(name, lambda module: _replace(module, option, report))
    on_import(_ALGORITHM, _save_beside)
    if here and _made_already(here):
        report.left(
            "a buffer exists already and stays as it is: ramledger.apply('replay') at the top of "
            "the script, or `ramledger run --apply replay`, comes before it"
        )


def _made_already(modules: list[types.ModuleType]) -> bool:
    """Whether the program has made a buffer that would have been replaced."""
    kinds = {id(vars(module).get(name)) for module in modules for name in _CLASSES}
    return any(id(type(one)) in kinds for one in gc.get_objects())


def _replace(module: types.ModuleType, compress: str, report: Report) -> None:
    base = vars(module).get("ReplayBuffer")
    if not isinstance(base, type) or not _is_known(report):
        return

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        # without arguments it is being unpickled, and gets its own arrays
        if (args or kwargs) and _is_meant(cls, report):
            try:
                with random_numbers_kept():
                    return _made(cls.__name__, compress, report, args, kwargs)
            except Exception as error:  # arguments, names or sizes that are not for ours
                report.left(f"{cls.__name__} stays as it is: {type(error).__name__}: {error}"[:300])
        return object.__new__(cls)

    set_attribute(base, "__new__", staticmethod(new))


def _is_known(report: Report) -> bool:
    try:
        found = version("stable_baselines3")
    except PackageNotFoundError:
        report.left("stable-baselines3 is not installed: buffers stay as they are")
        return False
    if release(found) < release(_OLDEST):
        report.left(f"stable-baselines3 {found} is older than {_OLDEST}: its buffers stay")
        return False
    return True


def _is_meant(cls: type, report: Report) -> bool:
    """One of the library's own classes; what else is made is said."""
    if getattr(cls, "is_applied_by_ramledger", False):
        return False
    if cls.__module__ in (*_BUFFERS, _HER) and cls.__name__ in _CLASSES:
        return True
    if cls.__module__.startswith("ramledger."):
        report.left(f"{cls.__name__} is already ours: it stays as it is")
    else:
        report.left(f"{cls.__name__} is a buffer class of its own: it stays as it is")
    return False


def _made(name: str, compress: str, report: Report, args: Any, kwargs: Any) -> Any:
    from ramledger.remedies.applied_buffer import applied_class
    from ramledger.replay.checkpoints.block_codec import codec_of

    if compress:
        try:
            codec_of(compress)
        except ConfigError:
            report.left(
                f"frames are not compressed: {compress} is not installed "
                "(pip install 'ramledger[compress]')"
            )
            compress = ""
    return applied_class(name, compress, report)(*args, **kwargs)


def _save_beside(module: types.ModuleType) -> None:
    """`model.save_replay_buffer(path)` saves our buffer to a folder beside that file."""

    def around(save: Method) -> Method:
        def save_replay_buffer(self: Any, path: Any) -> Any:
            buffer = self.replay_buffer
            if getattr(buffer, "is_applied_by_ramledger", False):
                buffer.checkpoint = buffer.checkpoint or _beside(path)
            return save(self, path)

        return save_replay_buffer

    wrap_method(module, "OffPolicyAlgorithm", "save_replay_buffer", around)


def _beside(path: Any) -> str | None:
    """The folder for a file, given by its path or opened."""
    name = path if isinstance(path, str | os.PathLike) else getattr(path, "name", None)
    if not isinstance(name, str | os.PathLike):
        return None
    return f"{os.fspath(name).removesuffix('.pkl')}.replay"
