"""Where things are: the repository, the tests, the programs that tests start, and stored files."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
PROGRAMS = TESTS / "programs"
DATA = TESTS / "data"
