"""The one line to change, in the user's own names: `losses.append(loss)` → `….append(loss.item())`.

Only where the line is known and, read as Python, of a form that says it all; never applied by us.
`N` stands for how many the user needs.
"""

import ast
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ramledger.diagnose.code_text import CodeLine
from ramledger.diagnose.finding import Cause, CodeLines, Explanation

_ADDS = ("append", "appendleft", "add")
_HOOKS = re.compile(r"register_\w*hook")
_SCALAR = re.compile(
    r"loss|return|reward|score|value|td_error|entropy|\bkl\b|\.(mean|sum|max|min|norm)\(",
    re.IGNORECASE,
)
_COPIES = {"numpy.ndarray": "copy", "torch.Tensor": "clone"}
_FIGURE = "matplotlib.figure.Figure"
_FIGURES, _ENVIRONMENTS = ("figure", "subplots", "subplot_mosaic"), ("make", "make_vec")
_BOUNDED = ("lru_cache", "functools.lru_cache")
_ENDLESS = {"cache": "functools.lru_cache", "functools.cache": "functools.lru_cache"}


def changed_line(found: Explanation, code: CodeLines) -> str:
    """`train.py:29: losses.append(loss) → losses.append(loss.item())`; '' where nothing is sure."""
    return next(_changes(found, code), "")


def _changes(found: Explanation, code: CodeLines) -> Iterator[str]:
    if found.cause is Cause.UNBOUNDED_CONTAINER:
        yield from _bounded_where_made(code)
    for line in map(CodeLine, code.stored_at):
        for change in _BY_CAUSE.get(found.cause, ()):
            changed = change(line, found)
            if changed:
                yield line.becomes(changed)
    if found.cause is Cause.OBJECT_PINNED:
        yield from _closed(found, code)


# ---- graphs and views ----------------------------------------------------------------------------


class _Added(NamedTuple):
    """`x.append(y)`: how it is called, on what, with what."""

    call: ast.Attribute
    value: ast.expr


def _added(line: CodeLine) -> _Added | None:
    call = line.statement.value if isinstance(line.statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or call.keywords or len(call.args) != 1:
        return None
    func = call.func
    is_adding = isinstance(func, ast.Attribute) and func.attr in _ADDS
    return _Added(func, call.args[0]) if is_adding and isinstance(func, ast.Attribute) else None


def _without_graph(line: CodeLine, _: Explanation) -> str:
    added, statement = _added(line), line.statement
    if added is not None:
        if isinstance(added.value, ast.Tuple | ast.List | ast.Dict):
            return ""
        return f"{line.text(added.call)}({_bare(line, added.value)})"
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        return f"{line.text(statement.target)} += {_bare(line, statement.value)}"
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    target, value = line.text(statement.targets[0]), statement.value
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return f"{target} = {line.text(value.left)} + {_bare(line, value.right)}"
    if isinstance(value, ast.Name | ast.Attribute):
        return f"{target} = {line.text(value)}.detach()"
    return ""


def _bare(line: CodeLine, value: ast.expr) -> str:
    text = line.text(value)
    if isinstance(value, ast.BinOp | ast.UnaryOp | ast.IfExp | ast.Compare):
        text = f"({text})"
    return f"{text}.item()" if _SCALAR.search(text) else f"{text}.detach()"


def _copied(line: CodeLine, found: Explanation) -> str:
    """A slice that is kept keeps the whole array."""
    copy, added, statement = _COPIES.get(found.culprit.type), _added(line), line.statement
    if copy is None:
        return ""
    if added is not None and isinstance(added.value, ast.Subscript):
        return f"{line.text(added.call)}({line.text(added.value)}.{copy}())"
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Subscript):
        return f"{line.whole_text}.{copy}()"
    return ""


# ---- containers ----------------------------------------------------------------------------------


def _bounded_where_made(code: CodeLines) -> Iterator[str]:
    """`self.history = []` → a deque, where things are appended and it is made on one line only."""
    appended = [added for line in code.stored_at if (added := _added(CodeLine(line))) is not None]
    names = {_last_name(added.call.value) for added in appended if added.call.attr != "add"}
    if len(code.begins_at) != 1:
        return
    line = CodeLine(code.begins_at[0])
    target = _empty_list(line.statement)
    if target is not None and names == {_last_name(target)}:
        yield line.becomes(f"{line.text(target)} = collections.deque(maxlen=N)")


def _empty_list(statement: ast.stmt | None) -> ast.expr | None:
    """The target of `x = []`, `x: list[int] = []` or `x = list()`."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    value = statement.value
    is_empty = isinstance(value, ast.List) and not value.elts
    is_called = isinstance(value, ast.Call) and ast.unparse(value) in ("list()", "deque()")
    return target if is_empty or is_called else None


def _last_name(value: ast.expr) -> str:
    if isinstance(value, ast.Attribute):
        return value.attr
    return value.id if isinstance(value, ast.Name) else ""


def _bounded(line: CodeLine, found: Explanation) -> str:
    added = _added(line)
    if added is None or added.call.attr == "add":
        return ""
    held = added.call.value
    if isinstance(held, ast.Subscript):
        # the lists in a dictionary are as many as its keys: it is the keys that only grow
        is_inner = found.culprit.path.endswith("]")
        return "" if is_inner else f"the same, and del {line.text(held)} once it is used"
    return f"the same, with {line.text(held)} = collections.deque(maxlen=N) where it is made"


def _oldest_dropped(line: CodeLine, _: Explanation) -> str:
    """`CACHE[state] = …` in a dictionary that only grows."""
    statement = line.statement
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Subscript) or not _last_name(target.value):
        return ""
    name = line.text(target.value)
    return f"the same, and before it: if len({name}) >= N: {name}.pop(next(iter({name})))"


def _bounded_cache(line: CodeLine, _: Explanation) -> str:
    """`@cache` and `@lru_cache(maxsize=None)` keep all results."""
    if not isinstance(line.statement, ast.FunctionDef):
        return ""
    decorator = line.statement.decorator_list[0]
    name = line.text(decorator.func if isinstance(decorator, ast.Call) else decorator)
    is_endless = name in _ENDLESS or (name in _BOUNDED and _has_no_size(decorator))
    return f"@{_ENDLESS.get(name, name)}(maxsize=N)" if is_endless else ""


def _has_no_size(decorator: ast.expr) -> bool:
    if not isinstance(decorator, ast.Call):  # 128 results
        return False
    named = [one.value for one in decorator.keywords if one.arg == "maxsize"]
    sizes = [*decorator.args[:1], *named]
    return bool(sizes) and isinstance(sizes[0], ast.Constant) and sizes[0].value is None


# ---- things of their own: hooks, figures, environments -----------------------------------------


def _removed_hook(line: CodeLine, _: Explanation) -> str:
    statement = line.statement
    if not isinstance(statement, ast.Expr | ast.Assign):
        return ""
    call = statement.value
    if not isinstance(call, ast.Call) or not _HOOKS.fullmatch(_last_name(call.func)):
        return ""
    if isinstance(statement, ast.Assign):
        name = line.text(statement.targets[0])
        return f"the same, and {name}.remove() once it is not needed"
    return f"handle = {line.text(call)}, and handle.remove() once it is not needed"


def _closed(found: Explanation, code: CodeLines) -> Iterator[str]:
    """What a function opens is closed where its loop or the function ends."""
    for opened, end in code.unclosed_at:
        line, last = CodeLine(opened), CodeLine(end)
        closing = _closing(line, found.culprit.type)
        is_loop = end.endswith("the loop ends")
        where = "where the loop ends" if is_loop else f"before {last.function}() returns"
        if closing:
            still = _still_held(found, last.function)
            yield line.becomes(f"the same, and {closing} {where}, {last.place}{still}")


def _still_held(found: Explanation, function: str) -> str:
    """An environment may also be in a list of the program, which closing does not empty."""
    path = found.culprit.path
    if not path or found.culprit.type == _FIGURE or path.startswith(f"{function}():"):
        return ""
    return f"; what stays then is held by {path}"


def _closing(line: CodeLine, kind: str) -> str:
    """`plt.close(fig)` or `env.close()`, in the names of the line that opens it."""
    statement = line.statement
    if not isinstance(statement, ast.Assign | ast.Expr):
        return ""
    call = statement.value
    if not isinstance(call, ast.Call):
        return ""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if isinstance(target, ast.Tuple):
        target = target.elts[0]
    maker, name = _last_name(call.func), line.text(target)
    if kind == _FIGURE:
        is_pyplot = maker in _FIGURES and isinstance(call.func, ast.Attribute)
        return f"{line.text(call.func).removesuffix(maker)}close({name})" if is_pyplot else ""
    is_maker = maker in (*_ENVIRONMENTS, kind.rpartition(".")[2])
    return f"{name}.close()" if is_maker and isinstance(target, ast.Name) else ""


Change = Callable[[CodeLine, Explanation], str]

_BY_CAUSE: dict[Cause, tuple[Change, ...]] = {
    Cause.GRAPH_RETENTION: (_without_graph,),
    Cause.PINNED_BY_SMALL_OWNER: (_copied,),
    Cause.UNBOUNDED_CONTAINER: (_bounded_cache, _bounded, _oldest_dropped),
    Cause.OBJECT_PINNED: (_bounded_cache, _removed_hook),
}
