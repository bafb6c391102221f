"""How long a description of a series is: its model's numbers, then what the model leaves over.

The shortest description wins (minimum description length), in nats: the difference of two is the
logarithm of their odds. Residuals are coded as white or as correlated noise, whichever is shorter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log, sqrt

from ramledger.run.shapes.constants import (
    CLIPPED,
    CODE_WIDTH,
    CORRELATED_NATS,
    LEAST_FOR_CORRELATION,
    MAD_TO_SIGMA,
    MOST_CORRELATION,
    T90,
    T90_MANY,
)
from ramledger.run.shapes.curve import median


@dataclass(frozen=True, slots=True)
class Noise:
    """What a model leaves over: its scale, and how alike neighbors are."""

    scale: float  # of the residuals themselves
    correlation: float  # of neighbors, 0 where they are independent
    nats: float  # to code all of them
    count: int

    @property
    def independent(self) -> float:
        """Correlated points count as fewer."""
        return max(1.0, self.count * (1 - self.correlation) / (1 + self.correlation))


def noise_of(residuals: Sequence[float], quantum: float) -> Noise:
    """The shorter of two codes; the noise floor costs nothing."""
    count = len(residuals)
    scale, white = _coded(residuals, quantum)
    correlation = correlation_of(residuals, scale)
    if correlation <= 0:
        return Noise(scale, 0.0, white, count)
    changes = [
        residuals[0],
        *(after - correlation * before for before, after in pairwise(residuals)),
    ]
    _, correlated = _coded(changes, quantum)
    correlated += log(count) / 2 + CORRELATED_NATS
    if correlated < white:
        return Noise(scale, correlation, correlated, count)
    return Noise(scale, 0.0, white, count)


def _coded(residuals: Sequence[float], quantum: float) -> tuple[float, float]:
    """Robust scale and code length; what is clipped costs the logarithm of its size more."""
    count = len(residuals)
    sizes = [abs(residual) for residual in residuals]
    usual = max(MAD_TO_SIGMA * median(sizes), quantum)
    most = CLIPPED * usual
    squares = beyond = 0.0
    for size in sizes:
        if size > most:
            beyond += log(size / most)
            size = most
        squares += size * size
    scale = sqrt(squares / count)
    ratio = CODE_WIDTH * scale / quantum
    return max(scale, quantum), count * log(1 + ratio * ratio) / 2 + beyond


def correlation_of(residuals: Sequence[float], scale: float) -> float:
    """Of neighbors; what the fitted line took away from it is given back (Marriott and Pope)."""
    count = len(residuals)
    if count < LEAST_FOR_CORRELATION:
        return 0.0
    most = CLIPPED * scale
    clipped = [max(-most, min(most, residual)) for residual in residuals]
    squares = sum(residual * residual for residual in clipped)
    alike = sum(a * b for a, b in pairwise(clipped)) / squares if squares else 0.0
    alike += (1 + 4 * alike) / count
    return min(MOST_CORRELATION, max(0.0, alike))


def parameter_nats(size: float, noise: Noise, quantum: float) -> float:
    """To state one number of a model to the precision that the noise allows."""
    return log(1 + size / max(noise.scale, quantum)) + log(noise.independent) / 2


def student_90(freedom: float) -> float:
    """How many standard errors make a two-sided interval of 90 %."""
    if freedom < 1:
        return 2 * T90[0]
    whole = int(freedom)
    return T90[whole - 1] if whole <= len(T90) else T90_MANY + 1.65 / freedom
