"""The live view fits series inside the recorder: this room needs the standard library only."""

import ast
import sys
from pathlib import Path

from ramledger.run import shapes

ROOM = "ramledger.run.shapes"


def test_the_room_imports_the_standard_library_only() -> None:
    assert shapes.__file__ is not None
    imported = set()
    for path in Path(shapes.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
    outside = {name for name in imported if not name.startswith(ROOM)}
    assert {name.partition(".")[0] for name in outside} <= sys.stdlib_module_names


def test_every_constant_is_in_one_file() -> None:
    assert shapes.__file__ is not None
    allowed = {"constants.py", "__init__.py"}
    for path in Path(shapes.__file__).parent.glob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        named = [
            target.id
            for node in body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant | ast.BinOp)
        ]
        assert path.name in allowed or not named, (path.name, named)
