"""A framework that is missing, broken or too old: one line that says which, and what to install."""

import sys
from types import TracebackType

from ramledger.errors import ConfigError
from ramledger.version_numbers import release


class needs:
    """`with needs("optuna", "4.0", extra="optuna"): import optuna`, else a ConfigError."""

    def __init__(self, module: str, oldest: str, *, extra: str, name: str = "") -> None:
        self._module, self._oldest, self._extra = module, oldest, extra
        self._name = name or module

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        version = str(getattr(sys.modules.get(self._module), "__version__", ""))
        if version and release(version) < release(self._oldest):
            what = f"{self._name} {version} is too old: {self._oldest} is needed"
        elif not isinstance(error, ImportError):
            return
        elif error.name == self._module:
            what = f"{self._name} is not installed"
        else:
            what = f"{self._name} cannot be imported: {error}"
        raise ConfigError(what, hint=f"pip install 'ramledger[{self._extra}]'") from error
