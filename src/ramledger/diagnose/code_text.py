"""A line of the user's code as a recording has it: its place, its text, what Python makes of it."""

import ast
import warnings
from contextlib import suppress


class CodeLine:
    """One line of the program: where it is, its text, and what Python makes of it."""

    def __init__(self, line: str) -> None:
        self.place, _, rest = line.partition(" in ")
        self.function, _, text = rest.partition(": ")
        self.source = text.strip()
        if self.source.startswith("@"):
            self.source += "\ndef decorated(): ..."
        self.statement: ast.stmt | None = None
        errors = (SyntaxError, ValueError, MemoryError, RecursionError)
        with suppress(*errors), warnings.catch_warnings(action="ignore"):
            (self.statement,) = ast.parse(self.source).body

    def text(self, part: ast.AST | None) -> str:
        """As the user wrote it."""
        return (part and ast.get_source_segment(self.source, part)) or ""

    @property
    def whole_text(self) -> str:
        """Without what follows it, such as a comment."""
        if isinstance(self.statement, ast.FunctionDef):
            return f"@{self.text(self.statement.decorator_list[0])}"
        return self.text(self.statement)

    def becomes(self, changed: str) -> str:
        return f"{self.place}: {self.whole_text} → {changed}"
