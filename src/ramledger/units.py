"""Sizes as text: "12.5 GiB" <-> int. The only place where a size is parsed or printed."""

import re

from ramledger.errors import ConfigError

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_FACTORS = {
    "": 1,
    "b": 1,
    **{prefix + "ib": 1 << (10 * power) for power, prefix in enumerate("kmgtp", 1)},
    **{prefix + "i": 1 << (10 * power) for power, prefix in enumerate("kmgtp", 1)},
    **{prefix + "b": 1000**power for power, prefix in enumerate("kmgtp", 1)},
    **{prefix: 1000**power for power, prefix in enumerate("kmgtp", 1)},
}
_MAX_DIGITS = 100
_SIZE = re.compile(r"\s*([0-9]+(?:[_,][0-9]{3})*(?:\.[0-9]+)?|\.[0-9]+)\s*([a-zA-Z]*)\s*", re.ASCII)


def format_bytes(size_bytes: int) -> str:
    """Print bytes with a binary unit and three significant figures or so: 1536 -> '1.5 KiB'."""
    sign = "-" if size_bytes < 0 else ""
    size = float(abs(size_bytes))
    unit = 0
    while size >= 1024 and unit < len(_BINARY) - 1:
        size /= 1024
        unit += 1
    if unit == 0:
        return f"{sign}{int(size)} B"
    # 1023.96 would print as "1024.0": move on to the next unit instead
    if round(size, 1) >= 1024 and unit < len(_BINARY) - 1:
        size /= 1024
        unit += 1
    return f"{sign}{size:.1f} {_BINARY[unit]}"


def format_delta(size_bytes: int) -> str:
    """Like format_bytes, with an explicit plus sign."""
    return f"+{format_bytes(size_bytes)}" if size_bytes > 0 else format_bytes(size_bytes)


def parse_bytes(text: str | int) -> int:
    """Read a size: '25GiB' and '25Gi' are binary, '25GB' and '25G' decimal, a bare number bytes."""
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise ConfigError(f"not a size: {text!r}", hint="write a size such as '25GiB' or '500 MB'")
    if isinstance(text, int):
        return _not_negative(text, str(text))
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ConfigError(f"not a size: {text!r}", hint="write a size such as '25GiB' or '500 MB'")
    number, unit = match.groups()
    factor = _FACTORS.get(unit.lower())
    if factor is None:
        raise ConfigError(
            f"unknown unit {unit!r} in size {text!r}",
            hint="units: B, KiB, MiB, GiB, TiB (1024) or KB, MB, GB, TB (1000)",
        )
    digits = number.replace("_", "").replace(",", "")
    if len(digits) > _MAX_DIGITS:
        raise ConfigError(f"size out of range: {text[:40]!r}", hint="a size is between 0 and 8 EiB")
    whole = int(digits) * factor if "." not in digits else round(float(digits) * factor)
    return _not_negative(whole, text)


def _not_negative(size_bytes: int, text: str) -> int:
    if not 0 <= size_bytes < 1 << 63:
        raise ConfigError(f"size out of range: {text!r}", hint="a size is between 0 and 8 EiB")
    return size_bytes


def format_duration(seconds: float) -> str:
    """Print a duration with its two largest units: 7384 -> '2 h 3 min'."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    while len(parts) > 1 and not parts[0][0]:
        del parts[0]
    shown = [f"{number} {unit}" for number, unit in parts[:2] if number]
    return " ".join(shown) or "0 s"
