"""`rollout`: rollouts of stable-baselines3 store each frame once, and are not copied for updates.

What holds the observations is exchanged when a buffer is reset, in subclasses, too; the rest of
the buffer is the library's own code.
"""

import types
from typing import Any

from ramledger.hooks.import_costs import on_import
from ramledger.interpreter.loaded_modules import attributes_of, namespace, set_attribute
from ramledger.remedies.method_wrapping import Method, wrap_method
from ramledger.remedies.reporting import Report

_BUFFERS = "stable_baselines3.common.buffers"
_CLASSES = ("RolloutBuffer", "DictRolloutBuffer")
_RECURRENT = "sb3_contrib.common.recurrent.buffers"
_RECURRENT_CLASSES = ("RecurrentRolloutBuffer", "RecurrentDictRolloutBuffer")


def install(_: str, report: Report) -> None:
    """When the program imports them."""
    on_import(_BUFFERS, lambda module: _exchange_observations(module, report))
    on_import(_RECURRENT, lambda module: _exchange_states(module, report))


def _exchange_observations(module: types.ModuleType, report: Report) -> None:
    from ramledger.remedies.rollout_attribute import NAME, ObservationsAttribute
    from ramledger.remedies.rollout_exchange import Rollouts

    base = namespace(module).get(_CLASSES[0])
    if not isinstance(base, type) or NAME in attributes_of(base):
        report.left("this stable-baselines3 has another rollout buffer: it stays as it is")
        return
    rollouts = Rollouts(report)
    attribute = ObservationsAttribute(rollouts)

    def around(reset: Method) -> Method:
        def reset_and_exchange(self: Any) -> Any:
            before = vars(self).get(NAME)
            found = reset(self)
            # a subclass may have an attribute of its own
            if _found_in(type(self), NAME) is attribute:
                rollouts.exchange(self, before)
            return found

        return reset_and_exchange

    set_attribute(base, NAME, attribute)
    for name in _CLASSES:
        wrap_method(module, name, "reset", around)


def _found_in(kind: type, name: str) -> Any:
    return next((vars(one)[name] for one in kind.__mro__ if name in vars(one)), None)


def _exchange_states(module: types.ModuleType, report: Report) -> None:
    from ramledger.remedies.rollout_exchange import exchange_states

    def around(reset: Method) -> Method:
        def reset_and_exchange(self: Any) -> Any:
            found = reset(self)
            exchange_states(self, report)
            return found

        return reset_and_exchange

    for name in _RECURRENT_CLASSES:
        wrap_method(module, name, "reset", around)
