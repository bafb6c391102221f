"""Text that C functions print is caught whole, or cut, and costs neither memory nor descriptors."""

import ctypes
import os

import pytest

from ramledger.measure.allocators.memstream import printed_by

libc = ctypes.CDLL(None)


def put(text: bytes, answer: int = 0, times: int = 1) -> tuple[int, str]:
    def write(stream: int) -> int:
        for _ in range(times):
            libc.fputs(text, ctypes.c_void_p(stream))
        return answer

    return printed_by(write)


def test_what_was_printed_and_returned() -> None:
    assert put(b"one\ntwo\n", answer=7) == (7, "one\ntwo\n")


def test_nothing_printed() -> None:
    assert put(b"") == (0, "")


def test_bytes_that_are_no_text() -> None:
    assert put(b"a\xffb") == (0, "a\N{REPLACEMENT CHARACTER}b")


def test_too_much_is_cut() -> None:
    _, text = put(b"x" * 65536, times=300)
    assert len(text) == 16 << 20


def test_an_error_passes_through_and_leaves_no_descriptor() -> None:
    def fail(stream: int) -> int:
        raise RuntimeError(f"at {stream > 0}")

    before = os.listdir("/proc/self/fd")
    with pytest.raises(RuntimeError, match="at True"):
        printed_by(fail)
    assert os.listdir("/proc/self/fd") == before


def test_the_buffer_is_freed() -> None:
    def rss_bytes() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    put(b"x" * 65536, times=100)
    before = rss_bytes()
    for _ in range(30):
        put(b"x" * 65536, times=100)
    assert rss_bytes() - before < 30 * 6_553_600 / 3
