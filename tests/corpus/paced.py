"""The text of a labeled program at a realistic pace, and with its phases marked if asked for.

Sleeps are put at the end of the functions that a phase calls, and of every turn of their loops:
sampled call stacks then show the program at work in its own functions.
"""

import ast
from pathlib import Path

LEAST_PHASE_SECONDS = 0.36
RUN_SECONDS = 32.0
_USUAL_ITERATIONS = 24
_IMPORTS = "import pace as _pace\nfrom time import sleep as _sleep"
_MARKED_MAIN = """
if __name__ == "__main__":
    ledger = ramledger.record()
    run(on_phase=lambda iteration, name: ledger.phase(name, generation=iteration))
"""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def paced(text: str, mode: str) -> str:
    """The program with sleeps that fill up its phases; `pace.py` says how long they are."""
    tree = ast.parse(text)
    blocks = phase_blocks(tree)
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, Function)}
    for name in {name for block in blocks for name in _calls(block) if name in functions}:
        _pace_function(functions[name])
    for block in blocks:
        _pace_block(block, set(functions))
    tree.body[_after_docstring(tree) : 0] = ast.parse(_IMPORTS).body
    if mode == "marked":
        _mark(tree)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def phase_seconds(text: str) -> float:
    """How long a phase has to last for the run to be long enough."""
    tree = ast.parse(text)
    passes = len(phase_blocks(tree)) * _iterations(tree)
    return max(LEAST_PHASE_SECONDS, RUN_SECONDS / passes)


def phase_blocks(tree: ast.Module) -> list[ast.With]:
    """Every `with phase(...)` of a program."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and ast.unparse(node.items[0]).startswith("phase(")
    ]


def _iterations(tree: ast.Module) -> int:
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For) and any(b in ast.walk(loop) for b in phase_blocks(tree)):
            match loop.iter:
                case ast.Call(args=[ast.Constant(value=int(number))]):
                    return number
    return _USUAL_ITERATIONS


def _calls(block: ast.With) -> set[str]:
    names = set()
    for node in ast.walk(ast.Module(block.body, [])):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(name) | ast.Attribute(attr=name):
                    names.add(name)
    return names


def _pace_function(function: Function) -> None:
    start = 1 if ast.get_docstring(function) is not None else 0
    body = function.body[start:]
    _pace_loops(body)
    function.body[start:] = [ast.Try(body=body, handlers=[], orelse=[], finalbody=_rest())]


def _pace_loops(body: list[ast.stmt]) -> None:
    """The outermost loops: a sleep after every turn."""
    for node in body:
        if isinstance(node, ast.For | ast.While):
            node.body += _rest()
        elif isinstance(node, ast.With | ast.If):
            _pace_loops(node.body)


def _pace_block(block: ast.With, functions: set[str]) -> None:
    name = ast.literal_eval(ast.unparse(block.items[0].context_expr.args[1]))  # type: ignore[attr-defined]
    if not _calls(block) & functions:
        _pace_loops(block.body)
    begin = ast.parse(f"_pace.begin({name!r})").body
    block.body = [*begin, *block.body, *ast.parse("_sleep(_pace.end())").body]


def _rest() -> list[ast.stmt]:
    return ast.parse("if _pace.is_early():\n    _sleep(_pace.left())").body


def _after_docstring(tree: ast.Module) -> int:
    imports_future = [
        number
        for number, node in enumerate(tree.body)
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    return imports_future[-1] + 1 if imports_future else 1


def _mark(tree: ast.Module) -> None:
    tree.body = [node for node in tree.body if not _is_main_guard(node)]
    tree.body[_after_docstring(tree) : 0] = ast.parse("import ramledger").body
    tree.body += ast.parse(_MARKED_MAIN).body


def _is_main_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)


def neighbors(program: Path) -> list[Path]:
    """Modules beside a program, which it may import."""
    return [
        path
        for path in program.parent.glob("*.py")
        if not path.stem.startswith(("leaky_", "healthy_"))
    ]
