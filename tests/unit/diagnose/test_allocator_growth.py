"""Growth that is noise of fragmentation, and growth that is not."""

from ramledger.diagnose.allocator_growth import is_fragmentation_noise
from ramledger.run.timeline import Point
from tests.support.made_up_recordings import MIB


def points(used: list[float], free: list[float], other: float = 50.0) -> list[Point]:
    return [
        Point(
            g,
            float(g),
            round((a + b + other) * MIB),
            0,
            malloc_in_use_bytes=round(a * MIB),
            malloc_free_bytes=round(b * MIB),
            python_in_use_bytes=0,
        )
        for g, (a, b) in enumerate(zip(used, free, strict=True))
    ]


def test_one_wave_of_freed_memory_is_noise() -> None:
    free = [15.0] * 16 + [20.0, 21.0, 22.0, 23.0, 23.0, 23.0, 24.0, 23.0]
    assert is_fragmentation_noise(points([175.4] * 24, free), ())


def test_freed_memory_that_rises_steadily_is_not() -> None:
    assert not is_fragmentation_noise(points([175.4] * 24, [2.0 * g for g in range(24)]), ())


def test_memory_in_use_is_not() -> None:
    used = [100.0 + 2 * g for g in range(24)]
    assert not is_fragmentation_noise(points(used, [20.0] * 24), ())


def test_memory_outside_of_malloc_is_not() -> None:
    rows = [
        Point(
            g,
            float(g),
            (100 + 3 * g) * MIB,
            0,
            malloc_in_use_bytes=50 * MIB,
            malloc_free_bytes=9 * MIB,
            python_in_use_bytes=0,
        )
        for g in range(24)
    ]
    assert not is_fragmentation_noise(rows, ())


def test_a_new_level_is_noise_once_it_is_flat() -> None:
    used = [116.0] * 7 + [148.0] * 17
    free = [3.0] * 11 + [
        33.0,
        27.0,
        27.0,
        26.0,
        26.0,
        26.0,
        26.0,
        26.0,
        33.0,
        33.0,
        26.0,
        33.0,
        33.0,
    ]
    assert is_fragmentation_noise(points(used, free), ())


def test_without_the_allocators_own_numbers_nothing_is_said() -> None:
    assert not is_fragmentation_noise([Point(g, float(g), g * MIB, 0) for g in range(24)], ())
