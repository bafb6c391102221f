"""`RecordMemory(env)`: memory per episode in `info`, and whether every reset leaves some behind."""

import time
from contextlib import suppress
from typing import Any

from ramledger.diagnose.finding import Cause
from ramledger.errors import ConfigError
from ramledger.integrations.repeated_work import FEWEST_PASSES, Passes, PassLeak
from ramledger.integrations.requirement import needs
from ramledger.process_session import ProcessSession
from ramledger.time_share import Governor

with needs("gymnasium", "1.0", extra="train"):
    import gymnasium

_SNAPSHOT_SHARE = 0.01
_SIZES_SHARE, _SIZES_CREDIT_SECONDS = 0.003, 0.005  # of what every end of a block takes
_RSS_SECONDS = 0.02  # between two readings, which take some 15 µs
_SNAPSHOT_RATIO = 1.5  # snapshots after 2, 3, 5, 8 … blocks of episodes
_WARM_UP = 2
_LEAST_BYTES = 64 * 1024
_MOST_BLOCKS = 64
_FEWEST_TO_HALVE = 2 * (_WARM_UP + FEWEST_PASSES)


class RecordMemory(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Adds `info["memory"]` at resets and at the ends of episodes; `leak()` judges them all.

    Episodes are judged in blocks that grow with the run, so a long run takes no memory for it.
    """

    def __init__(self, env: Any, *, episodes_per_block: int = 1) -> None:
        if isinstance(env, gymnasium.vector.VectorEnv):
            raise ConfigError(
                f"{type(env).__name__} is many environments",
                hint="wrap each: SyncVectorEnv([lambda: RecordMemory(make()), …])",
            )
        if episodes_per_block < 1:
            raise ConfigError(
                f"episodes_per_block must be at least 1, got {episodes_per_block}",
                hint="RecordMemory(env, episodes_per_block=10)",
            )
        gymnasium.utils.RecordConstructorArgs.__init__(self, episodes_per_block=episodes_per_block)
        gymnasium.Wrapper.__init__(self, env)
        self._session = ProcessSession()
        self._passes = Passes(collect=False)
        self._snapshots = Governor(_SNAPSHOT_SHARE, time.process_time)
        self._sizes = Governor(_SIZES_SHARE, time.process_time, _SIZES_CREDIT_SECONDS)
        self._block = episodes_per_block
        self._next_snapshot = _WARM_UP
        self._episodes = -1
        self._next_reading = 0.0
        self._rss_bytes = self._started_bytes = self._session.rss_bytes()

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        self._episodes += 1
        if self._episodes and self._episodes % self._block == 0:
            self._end_block()
        return observation, self._with_memory(info, starts=True)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self.env.step(action)
        if result[2] or result[3]:
            return (*result[:4], self._with_memory(result[4]))
        return result

    def leak(self) -> PassLeak | None:
        """What each block of episodes leaves behind; None if nothing does, or it is too early.

        Where the snapshots so far do not show what it is, one more is taken: it was asked for.
        """
        found = self._passes.leak(_LEAST_BYTES, _WARM_UP)
        if found is not None and found.explanation.cause is Cause.UNKNOWN:
            self._passes.take_snapshot()
            found = self._passes.leak(_LEAST_BYTES, _WARM_UP)
        return found

    @property
    def decides_in(self) -> int:
        """Episodes that are still needed before `leak()` can decide."""
        blocks = _WARM_UP + FEWEST_PASSES - len(self._passes.levels)
        return max(0, blocks) * self._block

    def _with_memory(self, info: dict[str, Any], *, starts: bool = False) -> dict[str, Any]:
        """RSS as it was a few milliseconds ago at most: episodes can be shorter than that."""
        if type(info) is not dict:  # an environment's own idea: not to be ended here
            return info
        now = time.monotonic()
        if now >= self._next_reading:
            self._rss_bytes, self._next_reading = self._session.rss_bytes(), now + _RSS_SECONDS
        rss = self._rss_bytes
        if starts:
            self._started_bytes = rss
        memory = {
            "rss_bytes": rss,
            "episode_growth_bytes": rss - self._started_bytes,
            "episode": self._episodes if self._episodes > 0 else 0,
        }
        return {**info, "memory": memory}

    def _end_block(self) -> None:
        began = time.thread_time()
        self._passes.ended()
        self._sizes.spend(time.thread_time() - began)
        self._snapshot_if_due()
        blocks = len(self._passes.levels)
        is_costly = blocks >= _FEWEST_TO_HALVE and blocks % 2 == 0 and not self._sizes.allows()
        if is_costly or blocks >= _MOST_BLOCKS:
            self._passes.halve()
            self._block *= 2
            self._next_snapshot = max(_WARM_UP, self._next_snapshot // 2)

    def _snapshot_if_due(self) -> None:
        """A snapshot only serves to explain growth: without any there is none."""
        number = len(self._passes.levels) - 1
        if number < self._next_snapshot or not self._grows(number) or not self._snapshots.allows():
            return
        began = time.thread_time()
        with suppress(Exception):  # a snapshot is not worth an episode
            self._passes.take_snapshot()
        self._snapshots.spend(time.thread_time() - began)
        self._next_snapshot = max(number + 1, round(number * _SNAPSHOT_RATIO))

    def _grows(self, number: int) -> bool:
        blocks = number - _WARM_UP
        levels = self._passes.levels
        return blocks > 0 and levels[-1] - levels[_WARM_UP] >= _LEAST_BYTES * blocks
