"""What sampling returns: arrays by name, as numpy or, without a copy, as torch tensors."""

from dataclasses import dataclass, field
from typing import Any

from ramledger.replay.storage.backing import Array

Observation = Array | dict[str, Array]


@dataclass(slots=True)
class Batch:
    """Transitions of one sample, the first axis counts them.

    With n steps, `reward` is their discounted sum, `next_obs`, `terminated` and `truncated` belong
    to the last of them, and `discount` is what a bootstrapped value is multiplied with.
    """

    obs: Observation
    action: Array
    reward: Array
    next_obs: Observation
    terminated: Array
    truncated: Array
    index: Array  # where they are stored: for new priorities
    extra: dict[str, Array] = field(default_factory=dict)
    weight: Array | None = None  # of prioritized sampling, the largest is 1
    discount: Array | None = None  # of n-step returns

    def __len__(self) -> int:
        return len(self.index)

    def torch(self) -> Any:
        """The same batch with tensors that share the arrays' memory."""
        from torch import from_numpy

        def tensor(value: Any) -> Any:
            if value is None:
                return None
            if isinstance(value, dict):
                return {name: from_numpy(array) for name, array in value.items()}
            return from_numpy(value)

        return Batch(*(tensor(getattr(self, name)) for name in self.__slots__))


@dataclass(slots=True)
class Sequences:
    """Stretches of consecutive transitions: [batch, time, …]; `mask` is False past the end."""

    obs: Observation
    action: Array
    reward: Array
    next_obs: Observation
    terminated: Array
    truncated: Array
    mask: Array
    index: Array
    extra: dict[str, Array] = field(default_factory=dict)
