"""Lines that add to a container, found in code of this very file."""

from collections import deque
from pathlib import Path

import pytest

from ramledger.objects.names.append_sites import lines_that_add_to, name_in


class Journal:
    def __init__(self) -> None:
        self.written_pages: list[int] = []
        self.table_of_visits: dict[int, int] = {}
        self.glued_rows = [0]
        self.only_read: deque[int] = deque()

    def log(self, page: int) -> None:
        self.written_pages.append(page)

    def visit(self, state: int) -> None:
        self.table_of_visits[state] = self.table_of_visits.get(state, 0) + 1

    def glue(self, rows: list[int]) -> None:
        self.glued_rows = [*self.glued_rows, *rows]

    def read(self) -> int:
        return len(self.only_read)


def collect_locally() -> list[str]:
    local_harvest: list[str] = []

    def add(one: str) -> None:
        local_harvest.append(one)

    add("a")
    return local_harvest


@pytest.mark.parametrize(
    ("path", "function"),
    [
        ("t.py:run.journal.written_pages", "Journal.log"),
        ("t.py:run.journal.written_pages[*]", "Journal.log"),
        ("t.py:Journal.table_of_visits", "Journal.visit"),
        ("t.py:journal.glued_rows", "Journal.glue"),
        ("t.py:collect_locally.local_harvest", "collect_locally.<locals>.add"),
    ],
)
def test_the_adding_function_is_named_with_its_line(path: str, function: str) -> None:
    found = [line for line in lines_that_add_to(path) if line.endswith(f" in {function}")]
    assert found, lines_that_add_to(path)
    file, _, number = found[0].partition(" ")[0].partition(":")
    assert file == Path(__file__).name
    line = Path(__file__).read_text(encoding="utf-8").splitlines()[int(number) - 1]
    assert name_in(path) in line


def test_reading_is_not_adding() -> None:
    assert not [
        line for line in lines_that_add_to("t.py:journal.only_read") if "Journal.read" in line
    ]


def test_a_path_without_a_name_has_no_writers() -> None:
    assert lines_that_add_to("<unreachable>") == ()
    assert lines_that_add_to("") == ()
