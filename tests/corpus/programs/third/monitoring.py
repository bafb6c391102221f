"""What one of the programs imports: a monitor that remembers the steps of its episodes."""

from dataclasses import dataclass


@dataclass(slots=True)
class StepRecord:
    """One step of one episode."""

    step: int
    reward: float
    q_values: tuple[float, ...]
    note: str


class EpisodeMonitor:
    """Steps by episode, and the running mean of the returns."""

    def __init__(self) -> None:
        self.episodes: dict[int, list[StepRecord]] = {}
        self.mean_return = 0.0

    def on_step(self, episode: int, step: int, reward: float, q_values: tuple[float, ...]) -> None:
        record = StepRecord(step, reward, q_values, f"{episode}/{step}: {reward:+.3f}")
        self.episodes.setdefault(episode, []).append(record)

    def on_episode_end(self, episode: int) -> float:
        total = sum(record.reward for record in self.episodes[episode])
        self.mean_return += 0.05 * (total - self.mean_return)
        return total
