"""Before anything is allocated: what a training will need, whether it fits, what to change.

The package is also the function: `ramledger.plan("train.py")` calls `make_plan.plan`.
"""

from ramledger.callable_packages import make_callable

make_callable(__name__, "make_plan.plan")
