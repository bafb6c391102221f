"""The one line to change, in the user's own names: `losses.append(loss)` → `….append(loss.item())`.

Only where the line that stores is known and says it all; never applied by us.
"""

import ast
import re
import warnings

from ramledger.diagnose.finding import Cause, CodeLines

_ADDS = ("append", "appendleft", "add")
_SCALAR = re.compile(
    r"loss|return|reward|score|value|td_error|entropy|\bkl\b|\.(mean|sum|max|min|norm)\(",
    re.IGNORECASE,
)


def changed_line(cause: Cause, code: CodeLines) -> str:
    """`train.py:29: losses.append(loss) → losses.append(loss.item())`; '' where nothing is sure."""
    for line in code.stored_at:
        place, statement = _parts(line)
        changed = _changed(cause, statement) if statement is not None else ""
        if changed and statement is not None:
            return f"{place}: {ast.unparse(statement)} → {changed}"
    return ""


def _parts(line: str) -> tuple[str, ast.stmt | None]:
    """`train.py:29` and the statement of `train.py:29 in Journal.log: self.pages.append(page)`."""
    place, _, rest = line.partition(" in ")
    text = rest.partition(": ")[2].strip()
    try:
        with warnings.catch_warnings(action="ignore"):
            (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return place, None
    return place, statement


def _changed(cause: Cause, statement: ast.stmt) -> str:
    if cause is Cause.GRAPH_RETENTION:
        return _without_graph(statement)
    added = _added(statement)
    if cause is Cause.UNBOUNDED_CONTAINER and added is not None:
        name = ast.unparse(added.func).rpartition(".")[0]
        return f"the same, with {name} = collections.deque(maxlen=N) where it is made"
    return ""


def _added(statement: ast.stmt) -> ast.Call | None:
    """The call of `x.append(y)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    is_call = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    if not is_call or not isinstance(call, ast.Call) or call.keywords or len(call.args) != 1:
        return None
    func = call.func
    return call if isinstance(func, ast.Attribute) and func.attr in _ADDS else None


def _without_graph(statement: ast.stmt) -> str:
    added = _added(statement)
    if added is not None:
        value = added.args[0]
        if isinstance(value, ast.Tuple | ast.List | ast.Dict):
            return ""
        return f"{ast.unparse(added.func)}({_bare(value)})"
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        return f"{ast.unparse(statement.target)} += {_bare(statement.value)}"
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    target, value = ast.unparse(statement.targets[0]), statement.value
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return f"{target} = {ast.unparse(value.left)} + {_bare(value.right)}"
    if isinstance(value, ast.Name | ast.Attribute):
        return f"{target} = {ast.unparse(value)}.detach()"
    return ""


def _bare(value: ast.expr) -> str:
    text = ast.unparse(value)
    if isinstance(value, ast.BinOp | ast.UnaryOp | ast.IfExp | ast.Compare):
        text = f"({text})"
    return f"{text}.item()" if _SCALAR.search(text) else f"{text}.detach()"
