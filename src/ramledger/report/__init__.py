"""Statements and findings on a screen, in a page, as JSON. Takes data, never a machine.

The package is also a function: `ramledger.report("run.ledger.jsonl")` writes the page.
"""

from ramledger.callable_packages import make_callable

make_callable(__name__, "html.page_file.report")
