"""The one estimator of a series: shape, rate, onset, capacity and future, each with its doubt."""

from ramledger.run.shapes.estimate import fit
from ramledger.run.shapes.filled_in import filled_in
from ramledger.run.shapes.fit import Bend, Fit, Interval, Piece, Points, Shape, Teeth
from ramledger.run.shapes.growth_statement import GrowthRow, GrowthStatement, growth_statement

__all__ = [
    "Bend",
    "Fit",
    "GrowthRow",
    "GrowthStatement",
    "Interval",
    "Piece",
    "Points",
    "Shape",
    "Teeth",
    "filled_in",
    "fit",
    "growth_statement",
]
