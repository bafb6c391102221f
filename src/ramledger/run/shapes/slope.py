"""The slope of a stretch with an interval of 90 % that correlated noise does not make too small."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

from ramledger.run.shapes.code_length import Noise, correlation_of, noise_of, student_90
from ramledger.run.shapes.constants import ROUNDING


@dataclass(frozen=True, slots=True)
class Slope:
    """Change a unit of x; its standard error; half the width of its interval."""

    slope: float
    error: float
    doubt: float

    @property
    def low(self) -> float:
        return self.slope - self.doubt

    @property
    def high(self) -> float:
        return self.slope + self.doubt


def slope_of(
    xs: Sequence[float], ys: Sequence[float], quantum: float, pooled: Noise | None = None
) -> Slope:
    """Least squares; the noise is its own, or that of the whole model where points are few."""
    count = len(xs)
    if count < 2:
        return Slope(0.0, inf, inf)
    x, y = sum(xs) / count, sum(ys) / count
    xx = sum((one - x) * (one - x) for one in xs)
    if xx <= 0:
        return Slope(0.0, inf, inf)
    slope = sum((one - x) * (other - y) for one, other in zip(xs, ys, strict=True)) / xx
    left = [other - y - slope * (one - x) for one, other in zip(xs, ys, strict=True)]
    noise = noise_of(left, quantum)
    correlation = correlation_of(left, noise.scale) if noise.scale > quantum else 0.0
    freedom = count * (1 - correlation) / (1 + correlation) - 2
    scale = sqrt(sum(one * one for one in left) / max(1.0, count - 2))
    if pooled is not None and freedom < 6:
        freedom = max(freedom, pooled.independent - 4)
        if pooled.scale > 1.01 * quantum:  # else it is the floor, not a scale
            scale = max(scale, pooled.scale)
        correlation = max(correlation, pooled.correlation)
    error = max(scale, quantum * ROUNDING) * sqrt((1 + correlation) / (1 - correlation) / xx)
    return Slope(slope, error, error * student_90(freedom))
