"""Buffers in a script of one's own, found by how they are made: deques, lists, arrays.

`deque(maxlen=50_000)`, `np.zeros((capacity, 84, 84))`, a list in a class named ReplayMemory.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from ramledger.plan.formulas.spaces import ITEM_BYTES
from ramledger.plan.sources.expressions import Choice, Unknown, at_end, name_of, value_of
from ramledger.plan.sources.known_objects import Record, dtype_name
from ramledger.plan.sources.script_fields import whole
from ramledger.plan.sources.script_scopes import Call, Script

_MEMORY = re.compile(
    r"memor|buffer|replay|experience|storage|transitions|rollout|examples|queue", re.I
)
_SCORES = re.compile(r"score|return|loss|window|recent|frame|stack|length|reward|win", re.I)
_ROLLOUT = re.compile(r"rollout|trajector|storage", re.I)
_HIDDEN = re.compile(r"hidden|recurrent|rnn|lstm|cell", re.I)
_OBSERVATION = re.compile(r"(^|_)(s|obs\d?|obses|states?\d?|observations?|frames?)(_|$)", re.I)
_CAPACITIES = (
    "capacity", "max_size", "maxlen", "max_len", "buffer_size", "mem_size", "memory_size", "size",
    "limit", "max_memory", "max_length", "buffer_limit", "n", "N", "max_mem_size", "maxsize",
)  # fmt: skip
_ARRAYS = {
    "zeros": False, "empty": False, "ones": True, "full": True, "zeros_like": True,
}  # fmt: skip
_EAGER_TORCH = ("zeros", "ones", "full", "zeros_like")
_PACKAGES = {"numpy": "float64", "np": "float64", "torch": "float32", "jax": "float32",
             "jnp": "float32"}  # fmt: skip
_LIBRARY_BUFFERS: dict[str, tuple[str, int | None]] = {
    "make_flat_buffer": ("max_length", 0), "make_item_buffer": ("max_length", 0),
    "make_trajectory_buffer": ("max_length_time_axis", 3), "LazyTensorStorage": ("max_size", 0),
    "make_prioritised_flat_buffer": ("max_length", 0), "ReplayBuffer": ("buffer_size", 0),
}  # fmt: skip
_LEAST_BYTES = 1 << 20  # of an array outside of a class that is named like a buffer


@dataclass(frozen=True, slots=True)
class FoundBuffer:
    """One buffer: its rows, and bytes of a row where they are known."""

    name: str
    place: str
    line: int
    script: Script
    text: str
    rows: int | Choice | None = None
    row_bytes: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    held_as: Literal["numpy", "torch", "list", "arrays"] = "numpy"
    observations: int = 2
    elements: int = 5
    eager: bool = False
    is_rollout: bool = False
    unknown: str = ""
    """What its capacity or its shape is, when only running would show it."""

    @property
    def is_array(self) -> bool:
        return self.row_bytes is not None or (bool(self.unknown) and bool(self.dtype))

    @property
    def holds_observations(self) -> bool:
        """Whether it is an array of observations, by its name."""
        name = self.name.rpartition(".")[2]
        return self.is_array and bool(_OBSERVATION.search(name)) and not _HIDDEN.search(name)


def find_buffers(scripts: Sequence[Script]) -> list[FoundBuffer]:
    """Every buffer of experience, in the order of the scripts."""
    used = {call.last for script in scripts for call in script.calls}
    found: list[FoundBuffer] = []
    for script in scripts:
        is_main = script is scripts[0]
        kinds = (
            _deques(script, scripts),
            _arrays(script),
            _lists(script, scripts),
            _packed(script),
        )
        for buffer in (buffer for kind in kinds for buffer in kind):
            owner = _owner_of(buffer)
            # a class that nobody makes holds nothing
            if is_main or not owner or owner in used:
                found.append(buffer)
    return found


def _owner_of(buffer: FoundBuffer) -> str:
    first = buffer.name.partition(".")[0]
    return first if first[:1].isupper() else ""


def _name(call: Call) -> str:
    target = call.target or call.last
    return target.replace("self.", f"{call.owner}.", 1) if call.owner else target


def _is_memory(name: str) -> bool:
    last = name.rpartition(".")[2]
    return bool(_MEMORY.search(name)) and not (_SCORES.search(last) and not _MEMORY.search(last))


def _deques(script: Script, scripts: Sequence[Script]) -> Iterator[FoundBuffer]:
    for call in script.find("deque"):
        node = call.argument("maxlen", 1)
        name = _name(call)
        appended = _appended(call.target or call.last, scripts)
        if node is None or not (_is_memory(name) or appended >= 3):
            continue
        if appended == 1 and not _is_memory(name):
            continue
        found = _of_objects(script, call, name, ast.unparse(call.node), node, scripts)
        yield _kept_in_a_list(script, call, found)


def _kept_in_a_list(script: Script, call: Call, found: FoundBuffer) -> FoundBuffer:
    """`history.append(examples)`: as many of them as the history keeps."""
    for append in script.find("append"):
        func, arguments = append.node.func, append.node.args
        if not call.target or not arguments or name_of(arguments[0]) != call.target:
            continue
        holder = name_of(func.value) if isinstance(func, ast.Attribute) else ""
        bound = _compared_length(script, holder)
        try:
            times = None if bound is None else whole(value_of(bound, append.names))
        except Unknown:
            times = None
        if times is None or not isinstance(found.rows, int):
            return replace(found, rows=None, unknown=f"kept in {holder}, without a known bound,")
        return replace(found, rows=found.rows * times, text=f"{found.text} × {times} in {holder}")
    return found


def _rows_or_why_not(node: ast.expr, call: Call) -> tuple[Any, str]:
    """A capacity, or what it depends on that is not known."""
    try:
        return _rows(value_of(node, call.names)), ""
    except Unknown as missing:
        return None, missing.what


def _of_objects(
    script: Script, call: Call, name: str, text: str, node: ast.expr, scripts: Sequence[Script]
) -> FoundBuffer:
    rows, unknown = _rows_or_why_not(node, call)
    elements = _appended(call.target or call.last, scripts)
    held_as, count = _how_held(scripts)
    return FoundBuffer(
        name, script.place(call.line), call.line, script, text, rows,
        held_as=held_as, observations=count, elements=max(elements, 5), unknown=unknown,
    )  # fmt: skip


def _rows(value: Any) -> Any:
    if isinstance(value, Choice):
        return Choice(whole(value.low), whole(value.high), value.line)
    return whole(value)


def _appended(target: str, scripts: Sequence[Script]) -> int:
    """How many things one element holds: `memory.append((s, a, r, s2, done))` holds 5."""
    last = target.rpartition(".")[2]
    for script in scripts:
        for call in script.find("append", "appendleft"):
            holder = (
                name_of(call.node.func.value) if isinstance(call.node.func, ast.Attribute) else ""
            )
            if holder.rpartition(".")[2] != last or not call.node.args:
                continue
            argument = call.node.args[0]
            if isinstance(argument, ast.Tuple | ast.List):
                return len(argument.elts)
            if isinstance(argument, ast.Call):
                return len(argument.args) + len(argument.keywords)
            if isinstance(argument, ast.Name):
                return 5 if re.search(r"trans|exper|sample|memory|tuple|^e$", argument.id) else 1
    return 0


_LEAST_PARTS = 4
_PROCESSING = re.compile(
    r"process|resize|gray|crop|downsample|to_state|feature|encode|extract", re.I
)
_NEXT = re.compile(r"next|new|prime|_$|2$|after", re.I)


def _how_held(scripts: Sequence[Script]) -> tuple[Literal["numpy", "torch", "list"], int]:
    """Whether observations are tensors, and whether a next one is the same object later on."""
    shared = tensors = False
    for body in (body for script in scripts for body in _bodies_that_store(script)):
        for node in body:
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            target = name_of(node.targets[0]).rpartition(".")[2]
            value = name_of(node.value).rpartition(".")[2]
            if value and target and _NEXT.search(value) and not _NEXT.search(target):
                shared = shared or _looks_like_state(target)
            elif _looks_like_state(target):
                tensors = tensors or _makes_tensor(node.value)
    return ("torch" if tensors else "numpy"), (1 if shared else 2)


def _bodies_that_store(script: Script) -> Iterator[list[ast.AST]]:
    """Nodes of each function, and of the script outside of them, that hands transitions on."""
    functions = [n for n in ast.walk(script.tree) if isinstance(n, ast.FunctionDef)]
    inside = {id(part) for function in functions for part in ast.walk(function)}
    outside = [node for node in ast.walk(script.tree) if id(node) not in inside]
    for nodes in (outside, *(list(ast.walk(function)) for function in functions)):
        if any(isinstance(node, ast.Call) and _stores(node) for node in nodes):
            yield nodes


def _stores(node: ast.Call) -> bool:
    """`memory.push(s, a, r, s2, done)`, `memory.append((s, a, r, s2, done))`."""
    if not isinstance(node.func, ast.Attribute) or not node.args:
        return False
    first = node.args[0]
    count = len(first.elts) if isinstance(first, ast.Tuple | ast.List) else len(node.args)
    if isinstance(first, ast.Call) and len(node.args) == 1:
        count = len(first.args)
    return count >= _LEAST_PARTS


def processed_by(scripts: Sequence[Script]) -> tuple[str, str]:
    """The function that changes observations before they are stored, and where; or ''."""
    for script in scripts:
        for node in (node for body in _bodies_that_store(script) for node in body):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            name = name_of(node.value.func)
            target = name_of(node.targets[0]).rpartition(".")[2]
            if _PROCESSING.search(name.rpartition(".")[2]) and _looks_like_state(target):
                return name, script.place(node.lineno)
    return "", ""


def _looks_like_state(name: str) -> bool:
    return bool(
        re.match(r"(s|o|x|obs\w*|\w*state\w*|\w*observation\w*|\w*screen)_?\d?$", name, re.I)
    )


def _makes_tensor(node: ast.expr) -> bool:
    names = [name_of(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)]
    makers = ("torch.tensor", "torch.from_numpy", "torch.FloatTensor", "torch.as_tensor",
              "torch.cat", "torch.stack", "torch.Tensor")  # fmt: skip
    return any(name in makers for name in names)


def _arrays(script: Script) -> Iterator[FoundBuffer]:
    for call in script.calls:
        package = call.name.partition(".")[0]
        if call.last not in _ARRAYS or package not in _PACKAGES or not call.target:
            continue
        if call.owner.endswith(("Env", "Wrapper", "Environment")):
            continue  # what an environment holds for itself
        name = _name(call)
        is_memory = bool(_MEMORY.search(call.owner or "")) or _is_memory(name)
        array = _array(script, call, name, package)
        if array is None:
            continue
        large = array.row_bytes is not None and _total(array) >= _LEAST_BYTES
        if large or is_memory:
            yield array


def _total(array: FoundBuffer) -> int:
    rows = at_end(array.rows, "high")
    return (rows if isinstance(rows, int) else 0) * (array.row_bytes or 0)


def _array(script: Script, call: Call, name: str, package: str) -> FoundBuffer | None:
    nodes = call.node.args
    if call.last == "full":
        nodes = nodes[:1]
    if not nodes or not isinstance(call.target, str):
        return None
    dtype = dtype_name(call.argument("dtype", 1 if package in ("np", "numpy") else None),
                       _PACKAGES[package])  # fmt: skip
    eager = call.last in _EAGER_TORCH if package == "torch" else _ARRAYS[call.last]
    text = f"{ast.unparse(call.node)[:70]}"
    place = script.place(call.line)
    is_rollout = bool(_ROLLOUT.search(call.owner))
    try:
        sizes = _sizes(nodes, call)
    except (Unknown, TypeError) as error:
        what = error.what if isinstance(error, Unknown) else str(error)
        return FoundBuffer(
            name, place, call.line, script, text, _leading(nodes, call), dtype=dtype, eager=eager,
            unknown=what, is_rollout=is_rollout,
        )  # fmt: skip
    if not sizes:
        return None
    rest = [at_end(size, "low") for size in sizes[1:]]
    row_bytes = ITEM_BYTES[dtype]
    for size in rest:
        row_bytes *= size
    return FoundBuffer(
        name, place, call.line, script, text, sizes[0], row_bytes, tuple(rest), dtype,
        eager=eager, is_rollout=is_rollout,
    )  # fmt: skip


def _leading(nodes: list[ast.expr], call: Call) -> int | None:
    """The product of the sizes that are known before the first that is not."""
    first = nodes[0]
    sizes = first.elts if len(nodes) == 1 and isinstance(first, ast.Tuple | ast.List) else nodes
    found = 1
    for index, node in enumerate(sizes):
        try:
            found *= whole(at_end(value_of(node, call.names), "low"))
        except Unknown:
            return found if index else None
    return found


def _sizes(nodes: list[ast.expr], call: Call) -> list[Any]:
    values: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            values += value_of(node.value, call.names)
        elif len(nodes) > 1 and name_of(node).startswith(("np.", "numpy.", "torch.", "jnp.")):
            continue  # a dtype by position
        else:
            values.append(value_of(node, call.names))
    if len(values) == 1 and isinstance(values[0], list | tuple):
        values = list(values[0])
    for value in values:
        if isinstance(value, Unknown):
            raise Unknown(value.what)
    return [_rows(value) for value in values]


def _packed(script: Script) -> Iterator[FoundBuffer]:
    """Buffers of libraries that keep one array for each part of a transition."""
    for call in script.calls:
        name, position = _LIBRARY_BUFFERS.get(call.last, ("", None))
        is_foreign = call.name.startswith(("flashbax", "fbx", "torchrl", "stable_baselines3",
                                           "cleanrl_utils"))  # fmt: skip
        node = call.argument(name, position) if name and is_foreign else None
        if node is None:
            continue
        rows, unknown = _rows_or_why_not(node, call)
        is_flat = call.last.startswith("make_")
        yield FoundBuffer(
            call.target or call.last, script.place(call.line), call.line, script,
            f"{call.last}({ast.unparse(node)[:40]})", rows, held_as="arrays",
            observations=1 if is_flat else 2, eager=is_flat, unknown=unknown,
        )  # fmt: skip


def _lists(script: Script, scripts: Sequence[Script]) -> Iterator[FoundBuffer]:
    """`self.buffer = []` in a class with a capacity, and lists whose length is compared to one."""
    for node in script.classes():
        if _MEMORY.search(node.name):
            yield from _list_of_class(script, node, scripts)
    for statement in ast.walk(script.tree):
        if isinstance(statement, ast.Assign) and _is_empty_list(statement.value):
            name = name_of(statement.targets[0])
            if name and not name.startswith("self.") and _is_memory(name):
                bound = _compared_length(script, name)
                if bound is not None:
                    call = Call(name, _no_call(statement), script.names, name)
                    text = f"list of at most {ast.unparse(bound)[:40]}"
                    yield _of_objects(script, call, name, text, bound, scripts)
    yield from _parallel_lists(script, scripts)


def _parallel_lists(script: Script, scripts: Sequence[Script]) -> Iterator[FoundBuffer]:
    """`if len(rewards) > most: del rewards[0]; del states[0]; …`: a list for each part."""
    for node in ast.walk(script.tree):
        if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
            continue
        names = {
            name_of(target.value)
            for statement in node.body
            if isinstance(statement, ast.Delete)
            for target in statement.targets
            if isinstance(target, ast.Subscript)
        }
        left = node.test.left
        is_length = isinstance(left, ast.Call) and name_of(left.func) == "len" and bool(left.args)
        if len(names) >= 3 and is_length and name_of(cast(ast.Call, left).args[0]) in names:
            bound = node.test.comparators[0]
            call = Call("list", _no_call(node), script.names)
            text = f"{len(names)} lists of at most {ast.unparse(bound)[:40]}"
            yield _of_objects(script, call, ", ".join(sorted(names)[:3]), text, bound, scripts)


def _list_of_class(
    script: Script, node: ast.ClassDef, scripts: Sequence[Script]
) -> Iterator[FoundBuffer]:
    lists = [
        statement for statement in ast.walk(node)
        if isinstance(statement, ast.Assign) and _is_empty_list(statement.value)
        and name_of(statement.targets[0]).startswith("self.")
    ]  # fmt: skip
    lists = list({name_of(entry.targets[0]): entry for entry in reversed(lists)}.values())[::-1]
    known = script.names.get(node.name)
    table = known if isinstance(known, Record) else Record()
    found = (table.get(name) for name in _CAPACITIES)
    capacity = next((value for value in found if isinstance(value, int | Choice)), None)
    held_as, count = _how_held(scripts)
    if not lists:
        return
    first = lists[0]
    name = name_of(first.targets[0]).replace("self.", f"{node.name}.", 1)
    place = script.place(first.lineno)
    if len(lists) >= 3:
        # one list for each part of a transition, emptied after an update
        yield FoundBuffer(
            node.name, place, first.lineno, script, f"{len(lists)} lists", None, held_as=held_as,
            observations=1, elements=len(lists), is_rollout=True,
        )  # fmt: skip
    elif capacity is not None:
        rows = _rows(capacity)
        yield FoundBuffer(
            name, place, first.lineno, script, f"list in {node.name}", rows, held_as=held_as,
            observations=count,
        )  # fmt: skip


def _is_empty_list(node: ast.expr) -> bool:
    if isinstance(node, ast.List):
        return not node.elts
    return isinstance(node, ast.BinOp) and isinstance(node.left, ast.List)


def _compared_length(script: Script, name: str) -> ast.expr | None:
    """The N of `if len(memory) > N: memory.pop(0)`."""
    for node in ast.walk(script.tree):
        if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
            continue
        left = node.test.left
        is_length = (
            isinstance(left, ast.Call) and name_of(left.func) == "len" and bool(left.args)
            and name_of(left.args[0]) == name
        )  # fmt: skip
        removes = any(
            isinstance(part, ast.Delete)
            or (isinstance(part, ast.Attribute) and part.attr in ("pop", "popleft"))
            for statement in node.body
            for part in ast.walk(statement)
        )
        if is_length and removes:
            return node.test.comparators[0]
    return None


def _no_call(node: ast.stmt) -> ast.Call:
    return ast.copy_location(ast.Call(ast.Name("list"), [], []), node)
