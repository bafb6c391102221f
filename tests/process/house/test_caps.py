"""The size and naming rules of the house, held by a test because taste alone does not hold them."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT

MAX_FILE_LINES = 500
MAX_STATEMENTS = 40
MAX_COMPLEXITY = 10
MAX_DOCSTRING_LINES = 5

GENERATED = {"__pycache__", "build", "dist", "site"}
TEXT_SUFFIXES = {".py", ".pyi", ".toml", ".txt", ".md", ".sh", ".yml", ".yaml", ".json", ".cfg", ""}
DRAWERS = {"util", "utils", "common", "helper", "helpers", "base", "misc"}
TREE_DRAWING = ("├", "│", "└")

FORBIDDEN_TEXT = {
    "a folder outside the repository": r"\.\./+shared",
    # /home/me and /home/user stand for anybody
    "a path of one machine": r"(?<![\w.}])/(?:work|root|home|Users|opt/pypi[\w-]*)/"
    r"(?!(?<=/home/)(?:me|user)/)\w",
    "a package registry": r"(?i)\b(?:pypi\.org|pythonhosted\.org|download\.pytorch\.org|ghcr\.io"
    r"|docker\.io|quay\.io|registry\.npmjs\.org|conda\.anaconda\.org)\b",
    "a package index option": r"--(?:extra-)?index-url|--find-links|--trusted-host",
}


def our_files() -> Iterator[Path]:
    """Everything that a clone holds, seen without git: no environments, caches or output."""
    pending = [ROOT]
    while pending:
        for path in sorted(pending.pop().iterdir()):
            if path.is_dir():
                if path.name == ".ci" or not is_generated(path):
                    pending.append(path)
            elif path.suffix in TEXT_SUFFIXES and not path.is_symlink() and path.name != ".git":
                yield path  # in a worktree, `.git` is a file


def is_generated(folder: Path) -> bool:
    return folder.name.startswith(".") or folder.name in GENERATED or folder.suffix == ".egg-info"


FILES = list(our_files())
PYTHON_FILES = [path for path in FILES if path.suffix == ".py"]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_tree_is_seen() -> None:
    names = {name_of(path) for path in FILES}
    assert {
        "Makefile",
        ".ci/run",
        "src/ramledger/ledger.py",
        "tests/conftest.py",
    } <= names


def test_files_are_short() -> None:
    lines = {name_of(path): path.read_text(encoding="utf-8").count("\n") for path in PYTHON_FILES}
    assert not {name: count for name, count in lines.items() if count > MAX_FILE_LINES}


# programs of known behavior carry the verdict that a perfect diagnosis gives in their header
WITH_VERDICT = ("tests/corpus/programs/", "tests/programs/tensorflow_leaks/")


def docstring_lines(path: Path) -> int:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    lines = [line for line in docstring.splitlines() if line]
    return sum(not line.startswith(TREE_DRAWING) for line in lines)


def test_modules_say_what_they_hold() -> None:
    paths = [path for path in PYTHON_FILES if not name_of(path).startswith(WITH_VERDICT)]
    lines = {name_of(path): docstring_lines(path) for path in paths}
    assert not {n: count for n, count in lines.items() if not 1 <= count <= MAX_DOCSTRING_LINES}


def test_functions_are_short_and_simple_and_none_is_excused() -> None:
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--ignore-noqa", "--no-cache"]
    command += ["--output-format", "concise", "--select", "C901,PLR0915"]
    command += ["--config", f"lint.mccabe.max-complexity={MAX_COMPLEXITY}"]
    command += ["--config", f"lint.pylint.max-statements={MAX_STATEMENTS}"]
    done = subprocess.run([*command, *PYTHON_FILES], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_drawers() -> None:
    parts = {part for path in FILES for part in path.relative_to(ROOT).with_suffix("").parts}
    assert not {part for part in parts if part.strip("_").removeprefix("test_") in DRAWERS}


@pytest.mark.parametrize("what", FORBIDDEN_TEXT)
def test_no_file_points_to(what: str) -> None:
    pattern = re.compile(FORBIDDEN_TEXT[what])
    found = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in FILES
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("a folder outside the repository", "see ../shared/NOTES.md"),
        ("a path of one machine", "cd /home/someone/ramledger"),
        ("a path of one machine", '"/root/x"'),
        ("a package registry", "https://pypi.org/project/ramledger"),
        ("a package index option", "pip install --index-url x"),
    ],
)
def test_the_patterns_find_what_they_are_for(what: str, line: str) -> None:
    assert re.search(FORBIDDEN_TEXT[what], line)
