"""Every number that decides a diagnosis, by the question that it answers, and what it rests on.

[-a | +b]: of all judgements of the corpus, a get worse with 0.7 times the value, b get better with
1.4 times. Without brackets none changes either way: the value is robust. The counts are printed by
`python -m tests.corpus.sensitivity`, which sets these names: look them up where they decide.
"""

from ramledger.units import KIB, MIB

# ---- what is growth
LEVEL_QUANTUM_BYTES = float(MIB)  # a level moves by that without meaning: counters lag [-5 | -2]
LEAST_RATE_BYTES = 50 * KIB  # an iteration: less takes 20,000 of them to fill 1 GiB
LEAST_GROWTH_BYTES = 2 * MIB  # in all: counters and malloc's tables move by that in healthy runs
FEWEST_POINTS = 6  # iterations that a verdict takes
LONG_ENOUGH_SECONDS = 30.0  # of a run without iterations: imports are over by then

# ---- what may hide a leak
NO_RISE = 0.02  # of a level or a use: a smaller rise in a whole run is none
HIDDEN_IN_TEETH = 0.25  # of the height of what rises and falls back: it hides less [-1 | +1]
NEAR_END = 0.25  # of the run: after its last snapshot, or since it is full, an account goes on
SAME_RATE = 0.4  # of the level's rate: the allocators' may differ by that [-3 +1 | +1]
SURER = 0.5  # of the doubt in the level's rate: with less, the allocators' is taken [-1 | -3]
FILLING_ERROR = 0.2  # of what fills: snapshots are few, and overhead grows with it

# ---- what fills, and where it ends
FILLING_BYTES = MIB  # what grew by less did not fill
SAME_PACE = 1.3  # bytes a share of the capacity, late over early: above, something else grows
BEGUN = 0.05  # of its end: a queue's maxsize may be 2^31, so less may never end
LARGEST_END_BYTES = 1 << 40  # what ends beyond this never ends

# ---- shares: of the growth between two snapshots, of a capacity, of snapshots, of iterations
SMALL_PART = 0.1  # less does not count
SEPARATE_LEAK = 0.15  # of the rate: less is no leak of its own
MORE_THAN_CHANCE = 0.2  # less may be chance
GOOD_PART = 0.3  # less is not what leaks
MOST = 0.5  # more explains it by itself
NEARLY_ALL = 0.98  # as good as all: the rest is headers and pages [-2 | 0]

# ---- which part of the run
START = 0.25  # of the run: programs still grow
LATE_START = 6  # iterations: a loop is found only after some; what leaks then leaked from the first
SNAPSHOTS_TO_CHOOSE = 4  # since the onset: with so many, the first is left out as warm-up
EARLY_NAMES = 2 / 3  # of the run: a snapshot of names up to here is early

# ---- which objects, and what they hold
EVERY_ITERATION = 0.5  # about one in each, as snapshots fall into the middle of one
MANY = 20  # an iteration: small things such as records, or objects that were frozen
LEAST_INSTANCES = 2  # in all: fewer new instances are chance
LEAST_COUNTED = 3  # in all: fewer new graphs, or elements that a phase adds, are chance
INSTANCE_BYTES = 150  # of an instance with its dictionary
NATIVE_BYTES = 256 * KIB  # of native memory that an object such as a figure may hold [0 | -2]
LARGE_ELEMENT_BYTES = 4 * KIB  # an element of a container: more than a number or a text
LARGE_RECORD_BYTES = 64 * KIB  # an element: a thing of its own, not a record
CLEARLY_MORE = 1.05  # what an inner container gains over the outer one to be named [-2 | 0]
DEEPER = 2  # operations that a tensor's graph goes back, last over first
DEEPER_OPERATIONS = 10  # the same, last less first
PREDICTS = 5  # calls of model.predict an iteration: it is called in a loop
GRAPHS_A_PREDICT = 0.2  # new graphs a call: the calls make them

# ---- growth that is no leak
WORTH_BYTES = 8 * MIB  # a change of the level that is worth a word [+1 | 0]
WORTH_OF_LEVEL = 0.05  # the same, of the level
LARGE_BYTES = 32 * MIB  # a spike, or room without use, that is worth a word [-2 | 0]
SPIKE_OF_LEVEL = 0.25  # the same spike, of the level [+1 | 0]
FILE_PAGES_BYTES = 16 * MIB  # file pages that are worth a word
WARM_UP = 3  # iterations: a step before that is warm-up
WARM_UP_OF_RUN = 1 / 6  # the same, of the run

# ---- what comes: no judgement of the corpus asks for it
FORECAST_DOUBT = 0.1  # of the peak, in nine of ten runs: what has not begun is in no series
FORECAST_POINTS = 3  # iterations that a forecast takes
FARTHEST = 1000.0  # times the iterations so far: what lies beyond is no forecast
SURELY_LASTS = 1 / 9  # of the time that a rise has lasted: in nine of ten cases it goes on for that
SETTLED = 0.5  # of the run: peaks before that may be those of the start
