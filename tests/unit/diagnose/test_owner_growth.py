"""Leaks that the level hides and snapshots show."""

from ramledger.diagnose.finding import Kind, Verdict
from ramledger.diagnose.verdict import diagnose
from tests.support.made_up_recordings import generations, recording, snapshot

LOG = "variables/t.py:run.log"
# batches of up to 60 MiB come and go: nothing can be told from the level
NOISY = [100.0 + (g * 37 % 61) for g in range(40)]
LEAKING = [level + 2.0 * g for g, level in enumerate(NOISY)]
SEEN = (1, 3, 6, 10, 16, 24, 34)


def judged(sizes: dict[int, float | tuple[float, float]]) -> tuple[Verdict, list[Kind]]:
    snapshots = [snapshot(g, {LOG: size}) for g, size in sizes.items()]
    found = diagnose(recording(*generations(NOISY), *snapshots))
    return found.verdict, [finding.kind for finding in found.findings]


def test_a_list_that_grows_along_a_line_is_a_leak_under_any_noise() -> None:
    snapshots = [snapshot(g, {LOG: 2.0 * g}) for g in SEEN]
    found = diagnose(recording(*generations(LEAKING), *snapshots))
    assert found.verdict is Verdict.LEAK
    assert abs(found.leaks[0].bytes_per_generation - 2 * 2**20) < 2**19


def test_what_maps_files_is_not_in_the_level_and_no_leak() -> None:
    assert judged({g: 2.0 * g for g in SEEN})[0] is Verdict.HEALTHY


def test_without_the_list_the_noise_alone_is_none() -> None:
    assert judged({})[0] is Verdict.HEALTHY
    assert judged(dict.fromkeys(SEEN, 30.0))[0] is Verdict.HEALTHY


def test_what_slows_down_is_none() -> None:
    assert judged({g: 60.0 * (1 - 0.8**g) for g in SEEN})[0] is Verdict.HEALTHY


def test_what_comes_back_down_is_none() -> None:
    assert judged({g: 2.0 * (g % 12) for g in SEEN})[0] is Verdict.HEALTHY


def test_what_was_reserved_at_once_is_filling() -> None:
    verdict, kinds = judged({g: (2.0 * g, 100.0) for g in SEEN})
    assert verdict is Verdict.HEALTHY
    assert Kind.FILLING in kinds


def test_a_few_snapshots_at_the_beginning_do_not_tell_of_the_rest() -> None:
    assert judged({g: 2.0 * g for g in (1, 2, 3, 4, 5, 6)})[0] is Verdict.HEALTHY
