"""`@pytest.mark.no_leak(generations=8)` and `@pytest.mark.ramledger_budget("500 MiB")`.

A suspected leak is confirmed by as many passes again before a test fails, with the finding as the
message. Nothing of ramledger is imported before a marked test runs.
"""

import logging
import threading
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from _pytest.logging import LogCaptureHandler

_PASSES = 8
_WARM_UP = 2
_LEAST = "64 KiB"
_POLL_SECONDS = 0.01
_TOP = 8
_REPEATS = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"no_leak(generations={_PASSES}, warm_up={_WARM_UP}, least='{_LEAST}'): run the test "
        "repeatedly in this process; it fails if every pass leaves memory behind",
    )
    config.addinivalue_line(
        "markers",
        "ramledger_budget(size): fail the test if RSS rises by more than this while it runs",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Methods of unittest are called in another way: a mark there would pass whatever they do."""
    if issubclass(getattr(item, "cls", None) or object, unittest.TestCase):
        for name in ("no_leak", "ramledger_budget"):
            if item.get_closest_marker(name) is not None:
                pytest.fail(f"{name} is not for unittest.TestCase: use a function", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """The first pass is pytest's own call; the others follow it, with the same fixtures."""
    if pyfuncitem.stash.get(_REPEATS, False):
        return (yield)
    budget = pyfuncitem.get_closest_marker("ramledger_budget")
    marker = pyfuncitem.get_closest_marker("no_leak")
    options = _options(marker) if marker is not None else {}
    with _held_to(budget) if budget else _Free():
        result = yield
    if marker is not None:
        pyfuncitem.stash[_REPEATS] = True
        _must_not_leak(lambda: _once_more(pyfuncitem), **options)
    return result


def _once_more(item: pytest.Function) -> None:
    """By the hook: plugins call tests that are coroutines in their own ways."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogCaptureHandler):
            handler.clear()  # it keeps every record of a test
    item.ihook.pytest_pyfunc_call(pyfuncitem=item)


def _options(marker: pytest.Mark) -> dict[str, Any]:
    known = ("generations", "warm_up", "least")
    options = {**dict(zip(known, marker.args, strict=False)), **marker.kwargs}
    unknown = options.keys() - set(known)
    if unknown or len(marker.args) > len(known):
        pytest.fail(f"no_leak does not know {', '.join(unknown) or 'so many arguments'}", False)
    generations, warm_up = options.get("generations", _PASSES), options.get("warm_up", _WARM_UP)
    if not isinstance(generations, int) or generations < 6:
        pytest.fail(f"no_leak needs at least 6 generations, not {generations!r}", pytrace=False)
    if not isinstance(warm_up, int) or warm_up < 0:
        pytest.fail(f"no_leak cannot warm up with {warm_up!r} passes", pytrace=False)
    return {**options, "least": _bytes_of("no_leak", options.get("least", _LEAST))}


def _bytes_of(name: str, size: Any) -> int:
    from ramledger.errors import ConfigError
    from ramledger.units import parse_bytes

    try:
        return parse_bytes(size)
    except ConfigError as error:
        problem = f"{name}: {error.message}; {error.hint}"
    pytest.fail(problem, pytrace=False)


def _must_not_leak(
    test: Callable[[], Any],
    generations: int = _PASSES,
    warm_up: int = _WARM_UP,
    *,
    least: int,
) -> None:
    from ramledger.integrations.repeated_work import Passes

    passes = Passes()
    snapshots_after = {warm_up, warm_up + generations // 2, warm_up + generations - 1}
    for number in range(warm_up + generations):
        test()
        passes.ended(snapshot=number in snapshots_after)
    if passes.leak(least, warm_up) is None:
        return
    # once more: a cache that fills up ends, a leak does not
    for number in range(generations):
        test()
        passes.ended(snapshot=number in (generations // 2, generations - 1))
    leak = passes.leak(least, warm_up + generations - 1)
    if leak is not None:
        pytest.fail(str(leak), pytrace=False)


class _Free:
    """No budget."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class _held_to:
    """Fails when RSS has risen by more than the budget, with the statement of that moment."""

    def __init__(self, marker: pytest.Mark) -> None:
        from ramledger.process_session import ProcessSession  # now: the moment passes quickly

        sizes = [*marker.args, *marker.kwargs.values()]
        if len(sizes) != 1 or not marker.kwargs.keys() <= {"size"}:
            pytest.fail("ramledger_budget takes one size, such as '500 MiB'", pytrace=False)
        self._budget = _bytes_of("ramledger_budget", sizes[0])
        self._session = ProcessSession()
        self._over = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._session.start_peak()
        self._before = self._session.rss_bytes()
        self._thread.start()

    def _watch(self) -> None:
        from ramledger.units import format_bytes

        rest = _POLL_SECONDS
        while not self._stop.wait(rest):
            if self._session.rss_bytes() - self._before > self._budget:
                entries = self._session.statement().entries[:_TOP]
                self._over = "".join(
                    f"\n  {format_bytes(e.resident_bytes):>10}  {e.account}" for e in entries
                )
                # again, less and less often: an array has a name only once it is made
                rest = max(2 * rest, 0.1)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        from ramledger.units import format_bytes

        self._stop.set()
        self._thread.join()
        risen = self._session.peak_bytes() - self._before
        if kind is None and (self._over or risen > self._budget):
            pytest.fail(
                f"RSS rose by {format_bytes(risen)}, the budget is {format_bytes(self._budget)}"
                + self._over,
                pytrace=False,
            )
