"""The one estimator of a series: shape, rate, onset, capacity and future, each with its doubt."""

from ramledger.run.shapes.estimate import fit
from ramledger.run.shapes.fit import Bend, Fit, Interval, Piece, Points, Shape, Teeth

__all__ = ["Bend", "Fit", "Interval", "Piece", "Points", "Shape", "Teeth", "fit"]
