"""Rises that fall back, as a garbage collector or a list that is emptied makes them.

What remains after each fall is the series that is judged: a tooth is no growth.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ramledger.run.shapes.constants import DOMINANT, FOOT_NOISE, LEAST_FALLS, LOPSIDED, TOOTH
from ramledger.run.shapes.curve import Curve, median, white_noise


@dataclass(frozen=True, slots=True)
class Toothed:
    """Indexes of peaks and of what remains after each fall from them."""

    peaks: tuple[int, ...]
    troughs: tuple[int, ...]  # the one before the first peak, then one after each

    @property
    def is_lopsided(self) -> bool:
        """Falls are sudden and rises slow, or the reverse; noise is as fast either way."""
        falls = zip(self.peaks, self.troughs[1:], strict=True)
        falling = median([trough - peak for peak, trough in falls])
        rising = median([b - a for a, b in zip(self.troughs, self.peaks, strict=False)])
        return max(falling, rising) >= LOPSIDED * min(falling, rising)

    def height(self, curve: Curve) -> float:
        falls = zip(self.peaks, self.troughs[1:], strict=True)
        return median([curve.ys[peak] - curve.ys[trough] for peak, trough in falls])

    def period(self, curve: Curve) -> float:
        first, last = self.peaks[0], self.peaks[-1]
        return (curve.xs[last] - curve.xs[first]) / (len(self.peaks) - 1)


def teeth_of(curve: Curve) -> Toothed | None:
    """Falls beyond noise, if there are several, each after a rise of its size."""
    least = TOOTH * white_noise(curve)
    turns = _turns(curve.ys, least)
    peaks = [turn for turn, is_peak in turns if is_peak]
    lows = [turn for turn, is_peak in turns if not is_peak]
    if len(peaks) < LEAST_FALLS or not lows:
        return None
    if lows[0] > peaks[0]:  # it begins on its way down
        first = min(range(peaks[0] + 1), key=lambda i: curve.ys[i])
        lows.insert(0, first)
    found = Toothed(tuple(peaks), tuple(lows))
    return found if found.is_lopsided or found.height(curve) > DOMINANT else None


def _turns(ys: Sequence[float], least: float) -> list[tuple[int, bool]]:
    """Turning points between swings of more than `least`: index, and whether it is a peak.

    A fall that is still on does not count.
    """
    turns: list[tuple[int, bool]] = []
    low = high = 0
    rising: bool | None = None
    for i, y in enumerate(ys):
        high = i if y > ys[high] else high
        low = i if y < ys[low] else low
        if rising is not False and ys[high] - y > least and high < i:
            turns.append((high, True))
            rising, low = False, i
            high = i
        elif rising is not True and y - ys[low] > least and low < i:
            turns.append((low, False))
            rising, high = True, i
            low = i
    if rising is False and turns[-1][1]:
        turns.pop()  # it may not have reached its foot
    return turns


def remains(curve: Curve, teeth: Toothed) -> Curve:
    """What is left after each fall; a last rise beyond all earlier peaks is no tooth and counts."""
    chosen = list(teeth.troughs)
    highest = max(curve.ys[peak] for peak in teeth.peaks)
    last = chosen[-1]
    tail = range(last + 1, len(curve))
    if tail and max(curve.ys[i] for i in tail) > highest + teeth.height(curve):
        chosen += tail
    quantum = max(curve.quantum, FOOT_NOISE * teeth.height(curve))
    return Curve([curve.xs[i] for i in chosen], [curve.ys[i] for i in chosen], quantum)
