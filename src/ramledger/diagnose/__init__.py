"""Judgement: statements and recordings become advice and findings. Never touches the machine.

The package is also a function: `ramledger.diagnose("run.ledger.jsonl")`.
"""

from ramledger.callable_packages import make_callable

make_callable(__name__, "recording_verdict.diagnose")
