"""Unit tests start no processes, and no test passes by being run again."""

import re

from tests.support.places import ROOT, TESTS

PROCESSES = re.compile(r"^\s*(import|from) (subprocess|multiprocessing)\b|\bos\.fork\(", re.M)
AGAIN = re.compile(r"--last-failed|--lf\b|--reruns|pytest.mark.flaky")


def test_unit_tests_start_no_processes() -> None:
    paths = (TESTS / "unit").rglob("*.py")
    texts = {path.name: path.read_text(encoding="utf-8") for path in paths}
    assert not [name for name, text in texts.items() if PROCESSES.search(text)]


def test_nothing_is_run_again() -> None:
    paths = [ROOT / "Makefile", ROOT / ".ci" / "run", ROOT / "pyproject.toml"]
    paths += [path for path in TESTS.rglob("*.py") if path.name != "test_tests_are_honest.py"]
    assert not [path for path in paths if AGAIN.search(path.read_text(encoding="utf-8"))]
