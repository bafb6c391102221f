"""Lines that store or make something, found in code of this very file."""

from collections import deque
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from ramledger.objects.names.code_sites import lines_that_add_to, lines_that_make, name_in


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

    def keep(self, graph: object) -> None:
        self.last_seen_graph = graph


class NotebookOfJournals:
    pass


def keep_the_best(hall: list[int], score: int) -> None:
    hall.append(score)


def breed_champions() -> list[int]:
    hall_of_champions: list[int] = []
    keep_the_best(hall_of_champions, 1)
    return hall_of_champions


def cells_covered(cell: int, cells_seen: list[int] = []) -> int:  # noqa: B006
    cells_seen.append(cell)
    return len(cells_seen)


@lru_cache(maxsize=None)  # noqa: UP033
def whitened_frame(frame: int) -> int:
    return frame


def watch_layer(layer: Any) -> None:
    layer.register_forward_hook(print)


def make_one() -> NotebookOfJournals:
    return NotebookOfJournals()


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
    found = [line for line in lines_that_add_to(path) if f" in {function}: " in line]
    assert found, lines_that_add_to(path)
    assert_is_of_this_file(found[0])
    assert name_in(path) in found[0].partition(": ")[2]


def assert_is_of_this_file(found: str) -> None:
    place, _, text = found.partition(": ")
    file, _, number = place.partition(" ")[0].partition(":")
    assert file == Path(__file__).name
    line = Path(__file__).read_text(encoding="utf-8").splitlines()[int(number) - 1]
    assert text == line.strip()


def test_where_nothing_is_added_the_assignment_is_named() -> None:
    (found,) = lines_that_add_to("Journal.last_seen_graph")
    assert found.endswith("in Journal.keep: self.last_seen_graph = graph")
    assert_is_of_this_file(found)


def test_where_instances_are_made() -> None:
    (found,) = lines_that_make("test_code_sites.NotebookOfJournals")
    assert found.endswith("in make_one: return NotebookOfJournals()")
    assert_is_of_this_file(found)
    assert lines_that_make("") == ()


def test_reading_is_not_adding() -> None:
    assert not [
        line for line in lines_that_add_to("t.py:journal.only_read") if "Journal.read" in line
    ]


def test_a_path_without_a_name_has_no_writers() -> None:
    assert lines_that_add_to("<unreachable>") == ()
    assert lines_that_add_to("") == ()


def test_hooks_are_stored_where_they_are_registered() -> None:
    (found,) = lines_that_add_to("main():net._modules['fc']._forward_hooks")
    assert found.endswith("in watch_layer: layer.register_forward_hook(print)")


def test_what_is_handed_to_a_function_is_added_to_there() -> None:
    (line,) = lines_that_add_to("breed_champions():hall_of_champions")
    assert line.endswith("in keep_the_best: hall.append(score)")


def test_a_default_argument_is_added_to_in_its_function() -> None:
    (line,) = lines_that_add_to("sites.py:cells_covered.__defaults__[0]")
    assert line.endswith("in cells_covered: cells_seen.append(cell)")


def test_a_cache_is_where_its_decorator_stands() -> None:
    (line,) = lines_that_add_to("sites.py:whitened_frame")
    assert "@lru_cache" in line
