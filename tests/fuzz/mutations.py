"""Damage to a recording: values of other types, absurd numbers, odd times, torn bytes."""

import json
import random
from collections.abc import Callable
from typing import Any

Line = dict[str, Any]
Lines = list[Line]

_DEEP: Any = []
for _ in range(60):
    _DEEP = [_DEEP, {"a": 1}]

HOSTILE_TEXTS = (
    "", "\x1b[31m\x1b]0;owned\x07", "[red]x[/red]", "[link=file:///etc]x[/link]", "\u202egnp.exe",
    "\u200b\u2066\u2069", "\ud800", "a\nb\r\x08c", "\x9b2J", "</script><script>alert(1)</script>",
    "x" * 100_000, "n" + "\u0301" * 3000, "\x00", "../../etc/passwd", "variables/" + "a." * 500,
)  # fmt: skip
NUMBERS: tuple[int | float, ...] = (
    0, 1, -1, 2, 7, 255, 1 << 31, 1 << 40, 1 << 53, 1 << 62, (1 << 63) - 1, 1 << 63, 10**18,
    10**30, -(1 << 62), 0.5, -0.0, 1e-320, 1e-9, 1e9, 1e15, 1e300, 1.7e308, float("nan"),
    float("inf"), float("-inf"),
)  # fmt: skip
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"": {}}, [1, "a", None], _DEEP, ["7"])

Place = tuple[Any, Any]  # a mapping or a list, and a key of it


def mutated(lines: Lines, rng: random.Random) -> bytes:
    """The recording with one to six things wrong with it."""
    encoded = list(lines)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        encoded = rng.choice(_MUTATIONS)(encoded, rng) or lines[:1]
    data = b"".join(map(_encoded, encoded))
    return _torn(data, rng) if rng.random() < 0.08 else data


_known: dict[int, tuple[Line, bytes]] = {}  # most lines are the sound recordings' own


def remember(lines: Lines) -> None:
    """Encode lines that will be written again and again only once."""
    _known.update({id(line): (line, json.dumps(line).encode() + b"\n") for line in lines})


def _encoded(line: Line) -> bytes:
    known = _known.get(id(line))
    return known[1] if known is not None else json.dumps(line).encode() + b"\n"


def _places(value: Any, found: list[Place]) -> list[Place]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        found.append((value, key))
        if isinstance(inner, dict | list):
            _places(inner, found)
    return found


def _copied(lines: Lines, at: int) -> Line:
    copy: Line = json.loads(json.dumps(lines[at]))
    lines[at] = copy
    return copy


def _at(lines: Lines, rng: random.Random) -> int:
    """Mostly an event, sometimes the header; rare kinds as often as common ones."""
    if rng.random() < 0.05:
        return 0
    kind = rng.choice(sorted({str(line.get("event")) for line in lines[1:]} or {""}))
    chosen = [at for at, line in enumerate(lines) if at and str(line.get("event")) == kind]
    return rng.choice(chosen) if chosen else 0


def _any_value(rng: random.Random) -> Any:
    return rng.choice(rng.choice((HOSTILE_TEXTS, NUMBERS, OTHERS)))


def replace_any(lines: Lines, rng: random.Random) -> Lines:
    lines = list(lines)
    places = _places(_copied(lines, _at(lines, rng)), [])
    if places:
        holder, key = rng.choice(places)
        holder[key] = _any_value(rng)
    return lines


def replace_alike(lines: Lines, rng: random.Random) -> Lines:
    """Of the same type, so that it passes every check of types."""
    lines = list(lines)
    places = _places(_copied(lines, _at(lines, rng)), [])
    for holder, key in rng.sample(places, min(len(places), rng.choice((1, 3, 30)))):
        old = holder[key]
        if isinstance(old, bool):
            holder[key] = not old
        elif isinstance(old, int):
            whole = [n for n in NUMBERS if isinstance(n, int)]
            holder[key] = rng.choice((rng.choice(whole), old * rng.choice((0, 2, 1000, -1))))
        elif isinstance(old, float):
            holder[key] = rng.choice(NUMBERS)
        elif isinstance(old, str) and key not in ("event", "schema", "source"):
            holder[key] = rng.choice(HOSTILE_TEXTS)
        elif isinstance(old, list | dict) and rng.random() < 0.3:
            holder[key] = type(old)()
    return lines


def remove(lines: Lines, rng: random.Random) -> Lines:
    lines = list(lines)
    holder, key = rng.choice(_places(_copied(lines, _at(lines, rng)), []) or [({0: 0}, 0)])
    del holder[key]
    return lines


def add_field(lines: Lines, rng: random.Random) -> Lines:
    lines = list(lines)
    names = ("used_bytes", "others", "signal", "stale", "role", "low", "high", "final", "live",
             "killed_by_kernel", "pid", "generation", "x" * 40)  # fmt: skip
    _copied(lines, _at(lines, rng))[rng.choice(names)] = _any_value(rng)
    return lines


def in_all_of_a_kind(lines: Lines, rng: random.Random) -> Lines:
    """One field, absurd in every event of a kind: a series, not a single outlier."""
    lines = list(lines)
    model = lines[_at(lines, rng)]
    fields = [key for key, value in model.items() if key != "event" and not isinstance(value, dict)]
    if "event" not in model or not fields:
        return lines
    name = rng.choice(fields)
    make = rng.choice(_SERIES)
    for at, line in enumerate(lines):
        if line.get("event") == model["event"] and name in line:
            value = make(rng, at, line[name])
            lines[at] = {**line, name: value if type(value) is type(line[name]) else line[name]}
    return lines


_SERIES: tuple[Callable[[random.Random, int, Any], Any], ...] = (
    lambda rng, at, old: 0 if isinstance(old, int) else 0.0,
    lambda rng, at, old: 1 << 62 if isinstance(old, int) else 1e9,
    lambda rng, at, old: at << 50 if isinstance(old, int) else -float(at),
    lambda rng, at, old: rng.choice([n for n in NUMBERS if type(n) is type(old)] or [old]),
    lambda rng, at, old: rng.randrange(1 << 62) if isinstance(old, int) else rng.random() * 1e-6,
    lambda rng, at, old: rng.choice(HOSTILE_TEXTS) if isinstance(old, str) else old,
)


def move_in_time(lines: Lines, rng: random.Random) -> Lines:
    """Clocks that stand still, jump, or run backwards."""
    odd: tuple[Callable[[float], float], ...] = (
        lambda t: 0.0, lambda t: -t, lambda t: t * 1e9, lambda t: t * 1e-9,
        lambda t: rng.random() * 100, lambda t: round(t, -1), lambda t: t + 1e11 * (t > 2),
    )  # fmt: skip
    move = rng.choice(odd)
    return [lines[0]] + [
        {**line, "t": move(float(line["t"]))} if isinstance(line.get("t"), int | float) else line
        for line in lines[1:]
    ]


def repeat(lines: Lines, rng: random.Random) -> Lines:
    at = _at(lines, rng)
    return lines[:at] + [lines[at]] * rng.choice((2, 10, 150)) + lines[at + 1 :]


def drop_kind(lines: Lines, rng: random.Random) -> Lines:
    kind = lines[_at(lines, rng)].get("event")
    return [line for line in lines if kind is None or line.get("event") != kind]


def shorten(lines: Lines, rng: random.Random) -> Lines:
    return lines[: 1 + rng.randrange(len(lines))]


def other_process(lines: Lines, rng: random.Random) -> Lines:
    """Everything, or one kind of event, belongs to another process."""
    kind = lines[_at(lines, rng)].get("event")
    pid = rng.choice((0, 1, 7, 1 << 40))
    return [
        {**line, "pid": pid} if "pid" in line and line.get("event") in (kind, None) else line
        for line in lines
    ]


def other_kind(lines: Lines, rng: random.Random) -> Lines:
    lines = list(lines)
    kinds = sorted({str(line.get("event")) for line in lines[1:]} or {"end"})
    at = _at(lines, rng)
    lines[at] = {**lines[at], "event": rng.choice((*kinds, "unheard-of"))}
    return lines


_MUTATIONS: tuple[Callable[[Lines, random.Random], Lines], ...] = (
    replace_any, replace_any, replace_alike, replace_alike, replace_alike, remove, add_field,
    in_all_of_a_kind, in_all_of_a_kind, move_in_time, repeat, drop_kind, shorten, other_process,
    other_kind,
)  # fmt: skip


def _torn(data: bytes, rng: random.Random) -> bytes:
    torn = bytearray(data)
    for _ in range(rng.choice((1, 5, 50))):
        torn[rng.randrange(len(torn))] = rng.randrange(256)
    return bytes(torn[: rng.randrange(len(torn))]) if rng.random() < 0.5 else bytes(torn)
