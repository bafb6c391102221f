"""Rehearsals with several values of a setting: how each row scales with it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ramledger.errors import ConfigError
from ramledger.plan.budget import Budget, Row, Span

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


@dataclass(frozen=True, slots=True)
class Variation:
    """One setting and the values to rehearse with, as in `n_envs=2,4`."""

    name: str
    values: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> "Variation":
        name, _, listed = text.partition("=")
        try:
            values = tuple(dict.fromkeys(float(value) for value in listed.split(",")))
        except ValueError:
            values = ()
        if not _NAME.fullmatch(name.strip()) or len(values) < 2:
            raise ConfigError(
                f"--vary {text}: not a name and two values or more", hint="--vary 'n_envs=2,4'"
            )
        return cls(name.strip(), values)

    def commands(self, command: Sequence[str]) -> list[list[str]]:
        """The command with each value in the place of `{name}`."""
        place = f"{{{self.name}}}"
        if not any(place in word for word in command):
            raise ConfigError(
                f"the command does not say where {self.name} goes",
                hint=f"write {place} for its value: python train.py --num-envs {place}",
            )
        return [[word.replace(place, _text(value)) for word in command] for value in self.values]


def parse_asked(texts: Sequence[str]) -> dict[str, float]:
    """`n_envs=8` of each `--at`."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = float(value.replace("_", ""))
        except ValueError:
            raise ConfigError(f"--at {text}: not NAME=NUMBER", hint="--at n_envs=8") from None
    return found


def at_value(variation: Variation, budgets: Sequence[Budget], value: float) -> Budget:
    """The budget that the rehearsed ones show for another value: each row on its straight line."""
    by_name = [{_key(row): row for row in budget.rows} for budget in budgets]
    names = dict.fromkeys(name for rows in by_name for name in rows)
    rows = tuple(_row_at(variation, [rows.get(name) for rows in by_name], value) for name in names)
    last = budgets[-1]
    needed = _span_at(variation.values, [budget.ram.needed for budget in budgets], value)
    main = _span_at(variation.values, [budget.main for budget in budgets], value)
    values = ", ".join(_text(one) for one in variation.values)
    return replace(
        last,
        title=f"{last.title}, at {variation.name}={_text(value)}",
        rows=tuple(sorted(rows, key=lambda row: -row.span.expected)),
        main=main,
        ram=replace(last.ram, needed=needed),
        assumed=(
            *last.assumed,
            f"each row lies on a straight line through the rehearsals with {variation.name} = "
            f"{values}",
        ),
    )


def with_capacity(budget: Budget, elements: float) -> Budget:
    """The budget if the largest buffer with a length limit had room for so many elements."""
    for row in budget.rows:
        found = re.search(r" of ([\d,]+) elements, ", row.formula)
        if found is None:
            continue
        scale = elements / int(found[1].replace(",", ""))
        span = Span(*(round(size * scale) for size in (row.span.low, row.span.expected,
                                                        row.span.high)))  # fmt: skip
        grown = Span(span.low - row.span.low, span.expected - row.span.expected,
                     span.high - row.span.high)  # fmt: skip
        text = row.formula.replace(found[1], f"{round(elements):,}")
        rows = tuple(replace(row, span=span, formula=text) if one is row else one
                     for one in budget.rows)  # fmt: skip
        return replace(
            budget, rows=rows, main=budget.main + grown,
            ram=replace(budget.ram, needed=budget.ram.needed + grown),
        )  # fmt: skip
    raise ConfigError(
        "no buffer with a length limit was seen", hint="--vary rehearses with several values"
    )


def _key(row: Row) -> tuple[str, str]:
    return row.account, str(row.where)


def _row_at(variation: Variation, rows: Sequence[Row | None], value: float) -> Row:
    known = [row for row in rows if row is not None]
    spans = [row.span if row is not None else Span.exact(0) for row in rows]
    span = _span_at(variation.values, spans, value)
    sizes = [one.expected for one in spans]
    if max(sizes) - min(sizes) < 0.02 * max(1, *sizes):
        return known[-1]
    slope, _ = _line(variation.values, sizes)
    text = f"{known[-1].formula}; {round(slope):+,} bytes for each {variation.name}"
    return replace(known[-1], span=span, formula=text)


def _span_at(values: Sequence[float], spans: Sequence[Span], value: float) -> Span:
    sizes = []
    for pick in ("low", "expected", "high"):
        slope, start = _line(values, [getattr(span, pick) for span in spans])
        sizes.append(max(0, round(start + slope * value)))
    return Span(min(sizes[:2]), sizes[1], max(sizes[1:]))


def _line(values: Sequence[float], sizes: Sequence[float]) -> tuple[float, float]:
    """Slope and intercept of the least squares."""
    count = len(values)
    middle, mean = sum(values) / count, sum(sizes) / count
    spread = sum((value - middle) ** 2 for value in values)
    both = sum((v - middle) * (s - mean) for v, s in zip(values, sizes, strict=True))
    slope = both / spread
    return slope, mean - slope * middle


def _text(value: float) -> str:
    return f"{value:g}" if value != int(value) else str(int(value))


BUFFER_NAMES = ("buffer_size", "capacity", "memory_size", "replay_size", "max_size")
