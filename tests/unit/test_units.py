"""Sizes as text: what is printed can be read back, and what cannot be read says so."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ramledger.errors import ConfigError
from ramledger.units import GIB, KIB, MIB, format_bytes, format_delta, format_duration, parse_bytes

BINARY_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
DECIMAL_UNITS = ["B", "KB", "MB", "GB", "TB", "PB"]
sizes = st.integers(min_value=0, max_value=1 << 62)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (MIB - 1, "1.0 MiB"),
        (12 * GIB + GIB // 2, "12.5 GiB"),
        (-3 * MIB, "-3.0 MiB"),
        (1 << 60, "1024.0 PiB"),
    ],
)
def test_prints_binary_units(size_bytes: int, text: str) -> None:
    assert format_bytes(size_bytes) == text


@given(sizes)
@example(MIB - 1)
@example(GIB - 1)
def test_printed_size_reads_back_within_its_last_digit(size_bytes: int) -> None:
    text = format_bytes(size_bytes)
    unit_bytes = 1024 ** BINARY_UNITS.index(text.split()[1])
    half_a_digit = unit_bytes // 20 + 1 if unit_bytes > 1 else 0
    assert abs(parse_bytes(text) - size_bytes) <= half_a_digit


@given(sizes)
def test_four_digits_before_the_point_are_left_to_the_largest_unit(size_bytes: int) -> None:
    number, unit = format_bytes(size_bytes).split()
    assert float(number) < 1024 or unit == "PiB"


@given(st.integers(min_value=0, max_value=999), st.sampled_from(range(6)))
def test_whole_numbers_are_read_exactly(number: int, power: int) -> None:
    assert parse_bytes(f"{number}{BINARY_UNITS[power]}") == number * 1024**power
    assert parse_bytes(f"{number} {DECIMAL_UNITS[power].lower()}") == number * 1000**power


@given(sizes)
def test_bytes_are_read_exactly(size_bytes: int) -> None:
    assert parse_bytes(size_bytes) == size_bytes
    assert parse_bytes(str(size_bytes)) == size_bytes
    assert parse_bytes(f"{size_bytes:,} B") == size_bytes
    assert parse_bytes(f"{size_bytes:_}") == size_bytes


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("25GiB", 25 * GIB),
        ("25 Gi", 25 * GIB),
        ("25G", 25 * 10**9),
        ("25GB", 25 * 10**9),
        ("1.5k", 1500),
        (".5 KiB", KIB // 2),
        ("  2MiB  ", 2 * MIB),
    ],
)
def test_reads_what_people_write(text: str, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize(
    "text",
    ["", "GiB", "12 apples", "1.2.3", "-1", "1e9", "1,2 GiB", "nan", "٣ GiB", "9e99", "8EiB"],
)
def test_refuses_with_a_hint(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_bytes(text)
    assert caught.value.hint


@pytest.mark.parametrize("value", [True, 1.5, None, b"1"])
def test_refuses_what_is_no_text_and_no_int(value: object) -> None:
    with pytest.raises(ConfigError):
        parse_bytes(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-1, 1 << 63, "-1 GiB", "9223372036854775808", "8192 PiB"])
def test_refuses_what_no_machine_has(value: str | int) -> None:
    with pytest.raises(ConfigError):
        parse_bytes(value)


def test_delta_has_a_sign() -> None:
    assert [format_delta(x * MIB) for x in (1, 0, -1)] == ["+1.0 MiB", "0 B", "-1.0 MiB"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3599, "59 min 59 s"),
        (7384, "2 h 3 min"),
        (48 * 3600 - 61, "1 d 23 h"),
        (50 * 3600, "2 d 2 h"),
    ],
)
def test_prints_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
