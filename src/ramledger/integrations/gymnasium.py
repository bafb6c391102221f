"""`RecordMemory(env)`: memory per episode in `info`, and whether every reset leaves some behind."""

import time
from typing import Any

from ramledger.account.governor import Governor
from ramledger.errors import ConfigError
from ramledger.inside.meter import Meter
from ramledger.integrations.passes import FEWEST_PASSES, Passes, PassLeak
from ramledger.integrations.requirement import needs

with needs("gymnasium", "1.0", extra="train"):
    import gymnasium

_LOOK_SHARE = 0.01
_RSS_SECONDS = 0.005  # between two readings
_LOOK_CREDIT_SECONDS = 2.0
_LOOK_RATIO = 1.5  # looks after 2, 3, 5, 8 … blocks of episodes
_WARM_UP = 2
_LEAST_BYTES = 64 * 1024
_MOST_BLOCKS = 64


class RecordMemory(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds `info["memory"]` at resets and at the ends of episodes; `leak()` judges them all.

    Episodes are judged in blocks that grow with the run, so a long run takes no memory for it.
    """

    def __init__(self, env: Any, *, episodes_per_block: int = 1) -> None:
        super().__init__(env)
        if episodes_per_block < 1:
            raise ConfigError(f"{episodes_per_block} episodes per block", hint="one or more")
        self._meter = Meter()
        self._passes = Passes(collect=False)
        self._looks = Governor(_LOOK_SHARE, credit=_LOOK_CREDIT_SECONDS)
        self._block = episodes_per_block
        self._next_look = _WARM_UP
        self._episodes = -1
        self._read_at = 0.0
        self._rss_bytes = self._started_bytes = self._meter.rss_bytes()

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(**options)
        self._episodes += 1
        if self._episodes and self._episodes % self._block == 0:
            self._end_block()
        self._started_bytes = self._rss()
        return observation, {**info, "memory": self._memory()}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        if terminated or truncated:
            info = {**info, "memory": self._memory()}
        return observation, reward, terminated, truncated, info

    def leak(self) -> PassLeak | None:
        """What each block of episodes leaves behind; None if nothing does, or it is too early."""
        return self._passes.leak(_LEAST_BYTES, _WARM_UP)

    @property
    def decides_in(self) -> int:
        """Episodes that are still needed before `leak()` can tell."""
        blocks = _WARM_UP + FEWEST_PASSES - len(self._passes.levels)
        return max(0, blocks) * self._block

    def _rss(self) -> int:
        """As it was a few milliseconds ago at most: episodes can be shorter than that."""
        now = time.monotonic()
        if now - self._read_at >= _RSS_SECONDS:
            self._rss_bytes, self._read_at = self._meter.rss_bytes(), now
        return self._rss_bytes

    def _memory(self) -> dict[str, int]:
        rss = self._rss()
        return {
            "rss_bytes": rss,
            "episode_growth_bytes": rss - self._started_bytes,
            "episode": max(0, self._episodes),
        }

    def _end_block(self) -> None:
        number = len(self._passes.levels)
        look = number >= self._next_look and self._looks.allows()
        began = time.thread_time()
        self._passes.ended(look=look)
        if look:
            self._looks.spend(time.thread_time() - began)
            self._next_look = max(number + 1, round(number * _LOOK_RATIO))
        if number + 1 >= _MOST_BLOCKS:
            self._passes.halve()
            self._block *= 2
