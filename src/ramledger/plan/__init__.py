"""Before anything is allocated: what a training will need, whether it fits, what to change.

The package is also the function: `ramledger.plan("train.py")` calls `make_plan.plan`, even after a
module of the package was imported.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ramledger.plan.budget import Budget


class _CallablePackage(ModuleType):
    def __call__(self, source: Any, **changes: Any) -> "Budget":
        from ramledger.plan.make_plan import plan

        return plan(source, **changes)


sys.modules[__name__].__class__ = _CallablePackage
