"""Every constant of the estimator, with the evidence that set it.

`benchmarks/shape_fit.py` prints the table that each was tried on.
"""

# ---- cost: 24 h with 200 series are judged in under 5 s, 5,000 points in under 50 ms -----------
FIRST_POINTS = 1500  # kept for spikes and teeth: medians of neighbors beyond that
MOST_POINTS = 100  # fitted as they are; 5,050 pairs of borders cost 15 ms
BINS = 64  # what longer series are reduced to; jumps are then found among the points
MOST_MOMENTS = 400  # of a dense whole that parts are compared with: a fit keeps fewer
MOST_PREDICTED_RESIDUALS = 400  # points from which peaks above the fit are read

# ---- numbers ----------------------------------------------------------------------------------
MOST_NUMBER = 1e140  # squares and products of these stay finite
LEAST_NUMBER = 1e-140
SAME_MOMENT = 1e-6  # of the span: moments so close are one, or slopes between them are rounding
ROUNDING = 12**-0.5  # the deviation of a value that was rounded, in quanta
ONE_BYTE = 1.0

# ---- noise --------------------------------------------------------------------------------------
LEAST_QUANTUM = 1e-9  # of the range: below that, differences are rounding of floats
MAD_TO_SIGMA = 1.4826  # of a normal distribution
CLIPPED = 4.0  # scales: a residual beyond counts by the logarithm of its size
CODE_WIDTH = 4.13  # sqrt(2 pi e): how many scales a normal residual takes
CORRELATED_NATS = 2.3  # odds of 1 to 10 before any point: else misfit is excused as noise
MOST_CORRELATION = 0.8  # of neighbors; with 1, every step and line would be a "random walk"
LEAST_FOR_CORRELATION = 8  # points: below, the correlation is itself noise

# ---- spikes: single points that a checkpoint or a copy throws up --------------------------------
SPIKE_WINDOW = 2  # neighbors on either side: a spike is at most 2 points wide
SPIKE = 6.0  # scales off the median of the window; white noise of 2,000 points reaches 3.5
MOST_SPIKES = 0.13  # of the points: more is structure (a tooth of period 7 has 2 of 7 edges)
LEAST_FOR_SPIKES = 12  # points: of fewer, each is evidence

# ---- teeth --------------------------------------------------------------------------------------
TOOTH = 8.0  # scales of white noise that a fall spans; the range of 2,000 normal points is 6.6
LOPSIDED = 3.0  # a slow way up for a sudden one down; noise has about 1
DOMINANT = 0.5  # of the range: teeth so high are the series, whatever their form
FOOT_NOISE = 0.05  # of the height: how unevenly falls end, before anything is said of growth
LEAST_FALLS = 3  # with two, a third rise is not yet known to end: pieces and novelty decide

# ---- choice -----------------------------------------------------------------------------------
LADDER = 5  # scales tried for the borders, from white noise to that of a constant
FEW_POINTS = 16  # whose second differences are mostly those of steps
CLEAR_NATS = 2.2  # odds of 9 to 1 between rising and not rising: 90 %
STAIRS = 4  # steps up, none down: with so many, the interval of their rate excludes 0
LONGEST_PAUSE = 3.0  # mean pauses: a longer one happens in 5 % (exponential), so it has stopped
LASTING = 0.2  # of the points: the opposite answer must have held so long; "just now" is no answer
ONSET_NATS = 1.35  # chi-squared with one degree of freedom, 90 %, halved
JOINED = 2.0  # standard errors: pieces that meet within are one broken line, without a jump
# Time constants of a tail, in its length. With the last of each, the rate at the end is half of
# the mean rate (ALIKE): a curve that bends less has not bent.
TIME_CONSTANTS = (0.05, 0.1, 0.17, 0.28, 0.45, 0.7)
FINER = (1.25, 1.12)  # factors by which the best of these is refined
SLOWING_CONSTANTS = (0.02, 0.07, 0.2)  # of growth by logarithm

# ---- reading ----------------------------------------------------------------------------------
ALIKE = 2.0  # rates within this factor are one growth that was interrupted by steps
LAST_PART = 1 / 3  # of the last piece: it must still rise by itself
CAPACITY_SLACK = 1.02  # lengths may exceed a capacity by what is in flight
LEAST_TO_DECIDE = 3  # points; two are always a line
LEAST_NOISY = 6  # points of noise before it is called flat: the scale of 5 is off by a factor of 2
FOLLOWS = 0.8  # of a part's changes that the whole explains, before it speaks for the part later
T90 = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81)  # Student, by freedom
T90_MANY = 1.645
