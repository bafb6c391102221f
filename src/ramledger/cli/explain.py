"""`ramledger explain PID…`: where the RAM of live processes is, right now."""

import json as json_format
from typing import Annotated, Any

from cyclopts import Parameter, validators

from ramledger.account.explain import explain_process
from ramledger.cli.main import EXIT_ERROR, print_error
from ramledger.diagnose.advice import Advice, advise
from ramledger.errors import RamledgerError
from ramledger.ledger import Statement
from ramledger.report.terminal import print_statement

# the kernel's PID_MAX_LIMIT on 64-bit systems (include/linux/threads.h)
PID_LIMIT = 1 << 22

Pid = Annotated[int, Parameter(required=True, validator=validators.Number(gte=1, lte=PID_LIMIT))]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]


def explain(
    *pids: Pid, tree: Flag = False, inside: Flag = False, json: Flag = False, top: Count = 20
) -> int:
    """Show where the RAM of live processes is, right now.

    Parameters
    ----------
    pids
        The processes to look at.
    tree
        Their child processes too; pages they share count once.
    inside
        Look into the process as well and name the objects that own its memory.
    json
        Print one JSON document: a statement, or a list of them for several processes.
    top
        How many accounts to print; the rest is summed in one row.
    """
    explained: list[tuple[Statement, list[Advice]]] = []
    for pid in pids:
        try:
            statement = explain_process(pid, tree=tree, inside=inside, top=top)
        except RamledgerError as error:
            print_error(error.message, hint=error.hint)
            continue
        explained.append((statement, advise(statement)))
        if not json:
            print_statement(*explained[-1], top=top)
    if json:
        _print_json(explained, several=len(pids) > 1)
    return 0 if len(explained) == len(pids) else EXIT_ERROR


def _print_json(explained: list[tuple[Statement, list[Advice]]], *, several: bool) -> None:
    documents: list[dict[str, Any]] = [
        statement.to_dict() | {"advice": [item.to_dict() for item in advice]}
        for statement, advice in explained
    ]
    if several:
        print(json_format.dumps(documents, indent=2))
    elif documents:
        print(json_format.dumps(documents[0], indent=2))
