"""A buffer of experience is the sum of its arrays; each framework defines which arrays."""

from collections.abc import Iterator
from dataclasses import dataclass

from ramledger.plan.job import Job

FLOAT = 4
# np.zeros becomes resident in steps of a huge page, or less, in every array that is filled
HUGE_PAGE_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class Array:
    """One array of a buffer: `rows` transitions of `row_bytes`; eager ones are touched at once."""

    account: str
    rows: int
    row_bytes: int
    formula: str
    eager: bool = False
    of_objects: bool = False
    """Many small allocations instead of one."""

    @property
    def total_bytes(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class Storage:
    """A buffer: its arrays, how many transitions it takes, and what an update copies of it."""

    arrays: tuple[Array, ...]
    capacity: int
    copied_at_update_bytes: int = 0
    on_gpu: bool = False

    @property
    def total_bytes(self) -> int:
        return sum(array.total_bytes for array in self.arrays)

    @property
    def largest_block(self) -> Array | None:
        """The largest single allocation."""
        blocks = [array for array in self.arrays if not array.of_objects]
        return max(blocks, key=lambda array: array.total_bytes, default=None)

    def resident_bytes(self, array: Array, steps: int | None) -> int:
        """What is touched after `steps` transitions."""
        if array.eager or steps is None or steps >= self.capacity:
            return array.total_bytes
        touched = array.row_bytes * steps
        rounded = -(-touched // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
        return min(rounded, array.total_bytes)


def observation_columns(job: Job, prefix: str) -> Iterator[tuple[str, int, str]]:
    """Account, bytes in one row and formula of every observation."""
    frames = job.config.frame_stack if job.config.replay_frames_once else 1
    for name, box in job.observation.items():
        account = f"{prefix}/{name}" if name else prefix
        formula = f"{shape_text(box.shape)} × {box.item_bytes} B"
        if frames > 1:
            formula += f" / {frames} frames"
        yield account, box.stored_bytes // frames, formula


def shape_text(shape: tuple[int, ...]) -> str:
    """84×84×3"""
    return "×".join(map(str, shape)) or "1"
