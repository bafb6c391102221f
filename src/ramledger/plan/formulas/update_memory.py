"""What one update needs for a moment: live tensors, scratch of libraries, what malloc keeps.

Live tensors are exact arithmetic. What the process grows by depends on glibc: blocks below 32 MiB
are on its heap, which fragments when they are freed in another order; larger ones are mapped.
"""

from dataclasses import dataclass

from ramledger.plan.budget import Span
from ramledger.plan.formulas.buffers import FLOAT
from ramledger.plan.formulas.process_costs import MB
from ramledger.plan.job import Job

# glibc's DEFAULT_MMAP_THRESHOLD_MAX on 64 bit: larger blocks are mapped, and returned, one by one
MMAP_ALWAYS_BYTES = 32 << 20

# measured on 2 cores with AVX2, glibc 2.36, torch 2.13: docs/accuracy-plan.md
HEAP_FACTOR = (1.3, 1.8, 2.4)
# pages of torch's code that the first forward and backward pass touch
MLP_CODE = Span(14 * MB, 19 * MB, 28 * MB)
ORTHOGONAL_CNN_CODE = Span(24 * MB, 38 * MB, 60 * MB)
CNN_CODE = Span(12 * MB, 24 * MB, 45 * MB)
# of a convolutional update, by contrast, little is freed out of order
CNN_HEAP_FACTOR = (1.0, 1.2, 1.45)
# of what was on the heap, the part that malloc still holds after the update: seen 0.1 to 1.6
HELD_FACTOR = 0.8
# oneDNN on AVX2 reorders a convolution's input to blocks of 8 channels
CHANNEL_BLOCK = 8
# it reads images of three channels as they are
PLAIN_CHANNELS = (3,)
# tensors of that size that its loss keeps
QUANTILE_COPIES = 8
# floats that autograd keeps per LSTM unit and step, padding of sequences included
LSTM_FLOATS = 70


@dataclass(frozen=True, slots=True)
class Update:
    """One update: `live_bytes` of tensors, and what the process grows by because of them."""

    live_bytes: int
    live_formula: str
    scratch_bytes: int
    scratch_formula: str
    heap: Span
    code: Span
    held_bytes: int


def update_of(job: Job) -> Update:
    """The cost of an update on the CPU."""
    if job.modules.trained == 0:
        return Update(0, "no gradients", 0, "", Span.exact(0), MLP_CODE, 0)
    if job.framework.update is not None:
        return job.framework.update(job)
    return _cnn_update(job) if job.has_cnn else _mlp_update(job)


def _mlp_update(job: Job) -> Update:
    gradients = job.modules.trained * FLOAT
    batch = job.effective_batch
    inputs = sum(box.network_inputs for box in job.observation.values())
    seen = 1 if job.algorithm.is_on_policy else 2
    width = job.modules.tower_widths + 2 * job.modules.widest + 2 * inputs * seen
    width += LSTM_FLOATS * job.modules.lstm_width
    pairs = QUANTILE_COPIES * _quantile_pairs(job)
    live = gradients + FLOAT * batch * (width + pairs)
    formula = f"{gradients:,} B gradients + {batch:,} × {width + pairs:,} × 4 B"
    if job.config.activation_bytes is not None:
        live, formula = job.config.activation_bytes, "given: activation_bytes"
    largest = max(
        FLOAT * batch * job.modules.widest, job.modules.largest_parameter * FLOAT,
        batch * job.stored_observation_bytes,
    )  # fmt: skip
    return Update(live, formula, 0, "", heap(job, live, largest), MLP_CODE, live)


def _cnn_update(job: Job) -> Update:
    modules, batch = job.modules, job.effective_batch
    gradients = modules.trained * FLOAT
    largest_parameter = modules.largest_parameter * FLOAT
    convolutions = [FLOAT * batch * size for size in modules.extractor.convolutions]
    first = convolutions[0]
    as_float = FLOAT * batch * job.observation_elements
    stored_item = FLOAT if job.framework.batches_are_floats else 0
    stored = batch * (job.observation_elements * stored_item or job.stored_observation_bytes)
    stored *= 1 if job.algorithm.is_on_policy else 2
    # SAC keeps the actor's graph while the critics are updated
    beside = as_float + sum(convolutions) if job.algorithm.shape == "sac" else 0
    # dividing by 255 makes a second array of floats
    floats = 2 if job.config.normalize_images else 1
    forward = gradients + stored + floats * as_float + beside
    backward = stored + as_float + sum(convolutions) + 2 * first + beside
    step = gradients + 2 * largest_parameter + stored
    pairs = FLOAT * batch * QUANTILE_COPIES * _quantile_pairs(job)
    recurrent = FLOAT * batch * LSTM_FLOATS * modules.lstm_width
    live = max(forward, backward + recurrent, step + pairs)
    formula = (
        f"max(gradients {gradients:,} + batch {stored:,} + {floats} × {as_float:,}, "
        f"batch + floats + convolutions {sum(convolutions):,} + 2 × {first:,}) B"
    )
    if job.config.activation_bytes is not None:
        live, formula = job.config.activation_bytes, "given: activation_bytes"
    reordered = _reordered_input_bytes(job, batch)
    with_scratch = max(backward + gradients + reordered, live)
    scratch = with_scratch - live + 2 * largest_parameter
    # one block's size, and how much there is of that kind
    blocks = [
        (pairs // QUANTILE_COPIES, pairs),
        (stored, stored), (as_float, as_float), (reordered, reordered),
        (first, 2 * first), (largest_parameter, gradients + 2 * largest_parameter),
        *((size, size) for size in convolutions),
    ]  # fmt: skip
    on_heap = sum(total for one, total in blocks if one < MMAP_ALWAYS_BYTES)
    if job.config.mmap_threshold:
        on_heap = 0
    return Update(
        live,
        formula,
        scratch,
        f"input in blocks of {CHANNEL_BLOCK} channels {reordered:,} B "
        f"+ 2 × largest weight {largest_parameter:,} B",
        _cnn_heap(on_heap),
        _cnn_code(job),
        gradients + round(HELD_FACTOR * max(on_heap - gradients, 0)),
    )


def _quantile_pairs(job: Job) -> int:
    """Quantile regression compares every quantile with every target quantile."""
    quantiles = job.config.n_quantiles or job.algorithm.n_quantiles
    if not quantiles or not job.framework.compares_quantiles:
        return 0
    if job.algorithm.shape == "q":
        return quantiles * quantiles
    # TQC drops the two largest of each target critic
    return job.n_critics * quantiles * max(quantiles - 2, 1) * job.n_critics


def _cnn_heap(on_heap_bytes: int) -> Span:
    low, expected, high = (round((factor - 1) * on_heap_bytes) for factor in CNN_HEAP_FACTOR)
    return Span(low, expected, high)


def _cnn_code(job: Job) -> Span:
    is_orthogonal = job.algorithm.is_on_policy and job.framework.orthogonal_weights
    return ORTHOGONAL_CNN_CODE if is_orthogonal else CNN_CODE


def _reordered_input_bytes(job: Job, batch: int) -> int:
    extractor = job.modules.extractor
    channels = extractor.input_channels
    if channels in PLAIN_CHANNELS:
        return 0
    blocked = -(-channels // CHANNEL_BLOCK) * CHANNEL_BLOCK
    return FLOAT * batch * blocked * extractor.input_pixels


def heap(job: Job, live_bytes: int, largest_bytes: int) -> Span:
    """What glibc keeps beyond the live bytes, because blocks are freed in another order."""
    if job.config.mmap_threshold or largest_bytes >= MMAP_ALWAYS_BYTES:
        return Span(0, round(0.1 * live_bytes), round(0.4 * live_bytes))
    low, expected, high = (round((factor - 1) * live_bytes) for factor in HEAP_FACTOR)
    return Span(low, expected, high)
