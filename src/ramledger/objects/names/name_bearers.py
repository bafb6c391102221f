"""Which instances start a name of their own: those of the user's classes that do something.

`Trainer.envs` is a better name than `main.population[*].envs`, and holds in every frame. A record,
a class without methods, is data: it is named by what holds it. So is a network or an environment,
whose role says what it is.
"""

import types

from ramledger.interpreter.type_facts import ancestors, namespace_of, once_a_type
from ramledger.interpreter.user_code import is_user_file, is_user_type
from ramledger.objects.roles import role_of


@once_a_type
def bears_name(kind: type) -> bool:
    """Whether an instance is named by its class, wherever it is held."""
    if not is_user_type(kind) or role_of(kind) is not None:
        return False
    return any(map(_has_methods, filter(is_user_type, ancestors(kind))))


def _has_methods(kind: type) -> bool:
    for name, value in list(namespace_of(kind).items()):
        function = value.__func__ if type(value) in (classmethod, staticmethod) else value
        if type(function) is not types.FunctionType or _is_special(name):
            continue
        if is_user_file(function.__code__.co_filename):
            return True
    return False


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name != "__call__"
