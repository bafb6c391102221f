"""The one estimator: any series of numbers becomes a Fit."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf, isfinite

from ramledger.run.shapes.choice import Candidate, Choice, choose
from ramledger.run.shapes.constants import (
    CLEAR_NATS,
    LEAST_NOISY,
    LEAST_TO_DECIDE,
    MOST_PREDICTED_RESIDUALS,
    SPIKE,
    SPIKE_WINDOW,
)
from ramledger.run.shapes.curve import (
    Curve,
    Units,
    cleaned,
    in_own_units,
    spikes,
    thinned,
)
from ramledger.run.shapes.fit import Bend, Fit, Interval, Piece, Points, Shape, Teeth
from ramledger.run.shapes.pieces import points_of_last_rate
from ramledger.run.shapes.reading import Reading, read
from ramledger.run.shapes.teeth import remains, teeth_of

_NEVER = (-inf, inf)


def fit(points: Points, *, capacity: float | None = None, quantum: float = 0.0) -> Fit:
    """What a series does, from points in any order and at any spacing.

    `capacity` is where its owner is known to stop. `quantum` is the size of a change that means
    nothing: 1 for lengths and counts, a page for bytes.
    """
    ats, values = cleaned(points)
    room = None if capacity is None or not isfinite(capacity) else capacity
    if len(ats) < 2:
        return _bounded(_too_few(ats, values), room)
    full, units = in_own_units(ats, values, max(0.0, quantum if isfinite(quantum) else 0.0))
    smooth = full.without(spikes(full))
    teeth = teeth_of(smooth)
    curve = thinned(smooth if teeth is None else remains(smooth, teeth))
    whole = curve
    curve, choice = _settled(curve, choose(curve))
    reading = read(curve, choice, None if room is None else (room - units.foot) / units.range)
    shape = reading.shape
    if teeth is not None and shape in {Shape.CONSTANT, Shape.STEP}:
        shape = Shape.SAWTOOTH
    known = None
    if teeth is not None:
        height, period = teeth.height(smooth), teeth.period(smooth)
        known = Teeth(len(teeth.peaks), period * units.span, height * units.range)
    pieces = _pieces(curve, choice.best, reading)
    below, above = _beside(full, pieces)
    if reading.turn is not None:  # it may fall back as it did before
        below, above = max(below, reading.level - min(curve.ys)), max(above, reading.turn)
    enough = _is_enough(curve, choice, reading) and not (
        reading.is_rising and _falls_behind(whole, len(curve), pieces[-1], choice.best.noise.scale)
    )
    needs = 0 if enough else _points_needed(curve, reading)
    found = Fit(
        shape=shape,
        points=len(ats),
        start=ats[0],
        stop=ats[-1],
        level=units.value(pieces[-1].value(1.0)),
        rate=units.rate(reading.slope),
        rate_interval=_rates(units, reading.slope_interval),
        onset=None if reading.onset is None else units.at(reading.onset),
        onset_interval=_ats(units, reading.onset_interval),
        capacity=None if reading.capacity is None else units.value(reading.capacity),
        capacity_interval=_values(units, reading.capacity_interval),
        residual_scale=choice.best.noise.scale * units.range,
        below=below * units.range,
        above=above * units.range,
        is_rising_at_end=reading.is_rising and enough,
        enough=enough,
        needs_more=needs,
        needs_more_at=needs * units.span / (len(curve) - 1) if len(curve) > 1 else 0.0,
        nats=choice.nats if reading.stairs_nats is None else reading.stairs_nats,
        pieces=tuple(_in_units(units, piece) for piece in pieces),
        teeth=known,
    )
    return found if enough else _bounded(found, room)


def _bounded(found: Fit, capacity: float | None) -> Fit:
    """What is not decided, but has a capacity that it is below, fills at most up to that."""
    if capacity is None or found.level > capacity or not found.points:
        return found
    low, high = found.rate_interval
    return replace(
        found,
        shape=Shape.FILLING,
        rate_interval=(max(0.0, low) if found.points == 1 else low, high),
        capacity=capacity,
        capacity_interval=(capacity, capacity),
    )


def _settled(curve: Curve, choice: Choice) -> tuple[Curve, Choice]:
    """Without a change in the last points alone: it may be a spike, and nobody knows yet."""
    begin = choice.best.begin
    if len(curve) - begin > min(SPIKE_WINDOW, len(curve) // 3):
        return curve, choice
    curve = curve.part(0, begin)
    return curve, choose(curve)


def _falls_behind(whole: Curve, judged: int, last: Piece, scale: float) -> bool:
    """Whether the last points, which were not judged, stay where a rise should have gone on.

    Spikes go up, and what falls back was freed; what stays may have come to its end.
    """
    room = max(whole.quantum, SPIKE * scale)
    stays = whole.ys[judged - 1] - room
    return any(
        stays <= y < last.value(x) - room
        for x, y in zip(whole.xs[judged:], whole.ys[judged:], strict=True)
    )


def _too_few(ats: Sequence[float], values: Sequence[float]) -> Fit:
    at, value = (ats[0], values[0]) if ats else (0.0, 0.0)
    return Fit(
        shape=Shape.CONSTANT, points=len(ats), start=at, stop=at, level=value, rate=0.0,
        rate_interval=_NEVER, onset=None, onset_interval=None, capacity=None,
        capacity_interval=None, residual_scale=0.0, below=0.0, above=0.0, is_rising_at_end=False,
        enough=False, needs_more=LEAST_TO_DECIDE - len(ats), needs_more_at=0.0, nats=0.0,
        pieces=(Piece(at, at, value, 0.0),) if ats else (),
    )  # fmt: skip


# ---- is it enough? ----------------------------------------------------------------------------


def _is_enough(curve: Curve, choice: Choice, reading: Reading) -> bool:
    """The odds are clear, or no rise that it could hide exceeds the noise floor.

    That noise is only noise, a few points do not prove; a line they do.
    """
    if len(curve) < LEAST_TO_DECIDE or reading.turn is not None:
        return False
    if reading.stairs_nats is not None:
        return True
    best = choice.best
    is_line = best.tail is None and not best.parts[-1].is_flat
    if is_line and points_of_last_rate(best.parts) < LEAST_TO_DECIDE:
        return False
    if best.goes_on:
        return choice.nats >= CLEAR_NATS
    part = curve.part(best.begin)
    can_hide = reading.slope_interval[1] * (part.xs[-1] - part.xs[0])
    if can_hide <= curve.quantum or max(curve.ys) - min(curve.ys) <= curve.quantum:
        return True
    is_noisy = best.noise.scale > curve.quantum
    return choice.nats >= CLEAR_NATS and not (is_noisy and len(curve) < LEAST_NOISY)


def _points_needed(curve: Curve, reading: Reading) -> int:
    """The doubt of a slope shrinks with the 3/2th power of the length of the series."""
    count = len(curve)
    least = max(1, LEAST_TO_DECIDE - count)
    if reading.turn is not None:
        more = reading.turn / max(reading.slope, 1e-9) * (count - 1)
        return max(least, min(10 * count, round(more)))
    low, high = reading.slope_interval
    doubt = (high - low) / 2
    middle = abs(low + high) / 2
    if not isfinite(doubt) or middle <= 0:
        return max(least, count)
    factor = min(10.0, max(1.25, (2 * doubt / middle) ** (2 / 3)))
    return max(least, int(count * (factor - 1)) + 1)


# ---- back to the units of the series ------------------------------------------------------------


def _pieces(curve: Curve, best: Candidate, reading: Reading) -> list[Piece]:
    """The model in own units; a last line that is not clear is flat."""
    pieces = []
    for part in best.parts:
        x, end = curve.xs[part.begin], curve.xs[min(part.end, len(curve) - 1)]
        pieces.append(Piece(x, end, part.y(x), part.slope))
    tail = best.tail
    if tail is not None:
        x, rate = curve.xs[tail.begin], tail.grown / tail.time_constant
        pieces.append(Piece(x, curve.xs[-1], tail.level, rate, tail.bend, tail.time_constant))
    elif not reading.slope:
        pieces[-1] = Piece(pieces[-1].start, pieces[-1].stop, reading.level, 0.0)
    if pieces[0].start > 0:
        pieces[0] = replace(pieces[0], start=0.0, level=pieces[0].value(0.0))
    return pieces


def _beside(full: Curve, pieces: Sequence[Piece]) -> tuple[float, float]:
    """How far points lie below and above the model: spikes and teeth too."""
    step = max(1, len(full) // MOST_PREDICTED_RESIDUALS)
    offs, index = [], 0
    for x, y in zip(full.xs[::step], full.ys[::step], strict=True):
        while index + 1 < len(pieces) and pieces[index + 1].start <= x:
            index += 1
        offs.append(y - pieces[index].value(x))
    offs.sort()
    return max(0.0, -offs[int(0.05 * len(offs))]), max(0.0, offs[-1])


def _in_units(units: Units, piece: Piece) -> Piece:
    constant = piece.time_constant * units.span if piece.bend is not Bend.STRAIGHT else 0.0
    return Piece(
        units.at(piece.start), units.at(piece.stop), units.value(piece.level),
        units.rate(piece.rate), piece.bend, constant,
    )  # fmt: skip


def _rates(units: Units, interval: Interval) -> Interval:
    return units.rate(interval[0]), units.rate(interval[1])


def _ats(units: Units, interval: Interval | None) -> Interval | None:
    if interval is None:
        return None
    low, high = (min(1.0, max(0.0, x)) for x in interval)
    return units.at(low), units.at(high)


def _values(units: Units, interval: Interval | None) -> Interval | None:
    return None if interval is None else (units.value(interval[0]), units.value(interval[1]))
