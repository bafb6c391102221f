"""Signals as a terminal would have them; no test fails because a machine is busy."""

import atexit
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# Python ignores these itself, and has its children not ignore them
PYTHONS = {signal.SIGPIPE, signal.SIGXFSZ}


def pytest_configure() -> None:
    _give_signals_back()
    with suppress(ImportError):  # environments of one framework do without
        import hypothesis

        hypothesis.settings.register_profile("ours", deadline=None)
        hypothesis.settings.load_profile("ours")


# pytest 9.2 no longer reads `_nodeid`, to which pytest-xdist 3.8 adds the group of a test
_GROUP = re.compile(r"""xdist_group\("([\w-]+)"\)""")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadgroup` by the marks of files: one worker runs all tests of a group."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    root = config.rootpath

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(root / nodeid.partition("::")[0]) or nodeid

    return ByGroup(config, log)


@cache
def group_of(path: Path) -> str:
    """The group that the tests of a file belong to, or nothing."""
    found = _GROUP.search(path.read_text(encoding="utf-8"))
    return found[1] if found else ""


def _give_signals_back() -> None:
    """What `nohup` or a shell's `&` has us ignore is not ignored by the programs that tests start.

    A program inherits what is ignored, and never a handler: so there is a handler instead.
    """
    for number in signal.valid_signals() - PYTHONS - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, _answer_to(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())


def _answer_to(number: int) -> Any:
    if number == signal.SIGINT:
        return signal.default_int_handler
    if (
        number == signal.SIGHUP
    ):  # the tests go on without their terminal, which is what nohup is for
        os.register_at_fork(after_in_child=lambda: signal.signal(number, signal.SIG_DFL))
        return lambda *_: None
    return signal.SIG_DFL


@pytest.fixture(autouse=True)
def _no_recording_stays() -> Iterator[None]:
    """A recording that a test begins in this process is not that of the next test."""
    from ramledger.agent import observer
    from ramledger.agent.server import between_questions

    before = observer.OBSERVER
    yield
    left, observer.OBSERVER = observer.OBSERVER, before
    if left is not None and left is not before:
        between_questions(lambda: 3600.0)  # its snapshots would count in the tests that follow
        atexit.unregister(left.at_exit)
