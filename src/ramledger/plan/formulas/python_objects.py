"""Transitions that a list or a deque holds as Python objects: what CPython, numpy and torch add.

Measured on CPython 3.11, numpy 2, torch 2.13 (CPU), glibc 2.36 with 100,000 transitions.
"""

from ramledger.plan.job import Job
from ramledger.plan.plan_config import Buffer

_TUPLE_BYTES = 56  # its header and the collector's, and its place in the list or deque
_POINTER = 8
_FLOAT_BYTES = 24
_ARRAY_BYTES = 112
_TENSOR_BYTES = 850
_LIST_BYTES = 72
_REWARD_BYTES = 8  # and whether an episode ended
# actions and rewards are tensors, too, where observations are
_SMALL_TENSORS = 2


def transition_bytes(job: Job, buffer: Buffer) -> tuple[int, str]:
    """Bytes of one element, and how they come about."""
    if buffer.held_as == "arrays":
        size = buffer.observations * job.stored_observation_bytes
        rest = job.action.stored_dimensions * 4 + _REWARD_BYTES
        return size + rest, f"{buffer.observations} observations, {rest} B beside, in arrays"
    outer = _TUPLE_BYTES + buffer.elements * _POINTER
    count = buffer.observations
    one, text = _observation(job, buffer)
    small = _SMALL_TENSORS * _TENSOR_BYTES if buffer.held_as == "torch" else _FLOAT_BYTES
    if buffer.held_as == "numpy" and job.action.is_continuous:
        small += _array(job.action.stored_dimensions * 4)
    shapes = ", ".join(f"{name} {box}".strip() for name, box in job.observation.items())
    each = f"{count} × {shapes}" if count > 1 else shapes
    return outer + count * one + small, f"{each} ({text}), {outer + small} B beside"


def _observation(job: Job, buffer: Buffer) -> tuple[int, str]:
    boxes = job.observation.values()
    if buffer.held_as == "torch":
        # tensors are made of floats unless the frames stay bytes
        size = sum(max(box.stored_bytes, box.elements * 4) for box in boxes)
        return _TENSOR_BYTES * len(boxes) + size, f"tensors, {_TENSOR_BYTES} B each beside"
    if buffer.held_as == "list":
        size = sum(_LIST_BYTES + box.elements * (_POINTER + _FLOAT_BYTES) for box in boxes)
        return size, "lists of Python numbers"
    return sum(_array(box.stored_bytes) for box in boxes), f"arrays, {_ARRAY_BYTES} B each beside"


def _array(data_bytes: int) -> int:
    return _ARRAY_BYTES + max(-(-data_bytes // 16) * 16, 16)
