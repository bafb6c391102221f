"""Real programs of known behavior through the real commands, one of most kinds.

The whole set: `make accuracy-diagnose`; its numbers: docs/accuracy-diagnose.md.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenarios.diagnosed import PROGRAMS, Expected, Grade, diagnose, grade, names, record

pytestmark = pytest.mark.serial

LEAKY = [
    ("leaky_novelty_archive", "bare"),
    ("leaky_parent_chain", "marked"),
    ("leaky_running_loss", "marked"),
    ("leaky_native_pages", "marked"),
    ("leaky_segments", "marked"),
    ("leaky_collector_off", "marked"),
    ("leaky_holes", "marked"),
    ("leaky_late_beside_filling", "bare"),
    ("leaky_small_views", "bare"),
]
HEALTHY = [
    ("healthy_deque_replay", "marked"),
    ("healthy_half_full_ring", "bare"),
    ("healthy_memmap_dataset", "bare"),
    ("healthy_larger_population", "marked"),
]


def graded(name: str, mode: str, folder: Path, is_right: Callable[[Grade], bool | None]) -> Grade:
    """The grade of a run; these runs last seconds, so on a busy machine it takes a second one."""
    for attempt in range(2):
        recording = record(name, mode, folder / f"{attempt}.jsonl")
        found = grade(Expected.of(name), mode, diagnose(recording))
        if is_right(found):
            break
    return found


@pytest.mark.parametrize(("name", "mode"), LEAKY)
def test_a_leak_is_found_with_its_cause_and_rate(name: str, mode: str, tmp_path: Path) -> None:
    found = graded(name, mode, tmp_path, lambda g: g.verdict and g.rate and g.cause and g.place)
    assert found.verdict, found.said
    assert found.rate, found.said
    assert found.cause, found.said
    assert found.place, found.said


@pytest.mark.parametrize(("name", "mode"), HEALTHY)
def test_healthy_growth_is_no_alarm_and_has_its_name(name: str, mode: str, tmp_path: Path) -> None:
    found = graded(name, mode, tmp_path, lambda g: g.verdict and g.kind)
    assert found.verdict, found.said
    assert found.kind, found.said


def test_every_program_says_what_it_expects() -> None:
    expected = [Expected.of(name) for name in names()]
    programs = [*PROGRAMS.rglob("leaky_*.py"), *PROGRAMS.rglob("healthy_*.py")]
    assert len(expected) == len(programs)
    assert sum(e.leaks for e in expected) >= 40
    assert sum(not e.leaks for e in expected) >= 25
    assert len(names("real")) >= 4
    assert all(e.causes and e.phase and e.culprits for e in expected if e.leaks)
    assert {cause for e in expected for cause in e.causes} == {
        "unbounded-container", "object-pinned", "pinned-by-small-owner", "graph-retention",
        "native-leak", "allocator-retention", "outside-process", "gc-off",
    }  # fmt: skip
    assert {kind for e in expected for kind in e.kinds} >= {
        "filling", "warm-up", "spike", "level-shift", "file-pages", "sawtooth", "waste",
    }  # fmt: skip
