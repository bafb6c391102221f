"""Lines of source: with their text where there is one, bounded, and never an error."""

import linecache
from pathlib import Path

from ramledger.interpreter.source_text import line_of_code


def test_a_line_has_its_place_and_text(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("x = 1\nwhile True:\n    log.append(x)\n", encoding="utf-8")
    assert line_of_code(str(file), 3, "run") == "train.py:3 in run: log.append(x)"
    assert line_of_code(str(file), 9, "run") == "train.py:9 in run"
    assert line_of_code(str(tmp_path / "gone.py"), 3, "run") == "gone.py:3 in run"
    assert line_of_code("<stdin>", 1, "<module>") == "<stdin>:1 in <module>"


def test_a_long_line_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("x = " + "1 + " * 1000 + "1\n", encoding="utf-8")
    assert len(line_of_code(str(file), 1, "run")) < 140


def test_what_is_no_text_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_bytes(b"\xff\xfe\x00\n" * 3)
    assert line_of_code(str(file), 2, "run").startswith("train.py:2 in run")


def test_cells_of_notebooks_are_known(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    cell = (20, None, ["a = 1\n", "a.append(2)\n"], "<cell>")
    monkeypatch.setitem(linecache.cache, "<ipython-input-1>", cell)
    assert line_of_code("<ipython-input-1>", 2, "f") == "<ipython-input-1>:2 in f: a.append(2)"
