"""Growth that ends by itself: buffers on their way to a capacity that is known."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from ramledger.event_parts import ContainerContent
from ramledger.ledger import Source, full_bytes
from ramledger.run.aligned_snapshots import Snapshot
from ramledger.run.timeline import Point, Timeline
from ramledger.units import MIB

_WORTH_BYTES = MIB
_LARGEST_END_BYTES = 1 << 40  # what ends beyond this never ends
_BEGUN = 0.05  # of its end: less is not begun, and what lacks less is done
_SAME_PACE = 1.3  # bytes for each share of the capacity, late over early
OWNERS = frozenset({Source.PATH, Source.CLAIM, Source.RECOGNIZED})


@dataclass(frozen=True, slots=True)
class Filling:
    """One account with a known end: how much it holds over time, and at most."""

    account: str
    path: str
    times: tuple[float, ...]
    resident: tuple[int, ...]
    final_bytes: int
    fill: float  # at the last snapshot
    grows: bool = False  # allocates as it goes: the allocator's overhead grows with it, uncounted

    def covers(self, account: str) -> bool:
        """Whether an account is this one, or one of its parts, as some snapshots list them."""
        return is_part(account, self.account)

    @property
    def growth_bytes(self) -> int:
        return self.resident[-1] - self.resident[0]

    @property
    def is_full(self) -> bool:
        return self.fill >= 0.995

    def at(self, t: float) -> float:
        """Resident bytes at a time, between snapshots by interpolation."""
        times, values = self.times, self.resident
        if t <= times[0]:
            # before the first snapshot: on the line of the first two, but never below zero
            if len(times) < 2 or times[1] == times[0]:
                return float(values[0])
            slope = (values[1] - values[0]) / (times[1] - times[0])
            return max(0.0, values[0] - slope * (times[0] - t))
        for i in range(1, len(times)):
            if t <= times[i]:
                share = (t - times[i - 1]) / (times[i] - times[i - 1])
                return values[i - 1] + share * (values[i] - values[i - 1])
        return float(min(self.final_bytes, self._beyond(t)))

    def _beyond(self, t: float) -> float:
        if self.is_full or len(self.times) < 2 or self.times[-1] == self.times[-2]:
            return float(self.resident[-1])
        slope = (self.resident[-1] - self.resident[-2]) / (self.times[-1] - self.times[-2])
        return self.resident[-1] + slope * (t - self.times[-1])


def find_fillings(timeline: Timeline) -> list[Filling]:
    """Accounts that grow towards a capacity, or reached it between two snapshots."""
    snapshots = live_snapshots(timeline)
    if len(snapshots) < 2:
        return []
    accounts = sorted({name for snapshot in snapshots for name in snapshot.entries})
    found: list[Filling] = []
    for name in accounts:  # wholes come before their parts
        filling = None if any(f.covers(name) for f in found) else _filling(name, snapshots)
        if filling is not None and filling.growth_bytes >= _WORTH_BYTES:
            found.append(filling)
    return found


def is_part(account: str, whole: str) -> bool:
    """Whether `a.b.c` is `a.b` or a part of it."""
    return account == whole or account.startswith(whole + ".")


def live_snapshots(timeline: Timeline) -> list[Snapshot]:
    """Looks into the running program; what is seen at its exit is another story."""
    return list(timeline.snapshots)


def unexplained_level(points: Sequence[Point], fillings: Sequence[Filling]) -> list[float]:
    """Anonymous memory at each point, minus buffers that are filling to a known capacity."""
    return [point.anon_bytes - sum(filling.at(point.t) for filling in fillings) for point in points]


def _filling(account: str, snapshots: Sequence[Snapshot]) -> Filling | None:
    seen = [snapshot for snapshot in snapshots if account in snapshot.entries]
    if not seen or seen[-1].entries[account].source not in OWNERS:
        return None
    stated = seen[-1].entries[account].fill
    container = _bounded_container(account, seen)
    if container is not None:
        seen = _since_empty(account, snapshots)
    if len(seen) < 2:
        return None
    resident = [_held_bytes(snapshot, account) for snapshot in seen]
    if container is not None:
        fill = min(1.0, container.length / (container.capacity or 1))
        final = round(resident[-1] / max(fill, 1e-6))
        path = container.path
    else:
        limits = [snapshot.entries[account].reserved_bytes for snapshot in seen]
        reserved = limits[-1]
        at_end = _stated_end(seen, account)
        if at_end:
            return Filling(
                account, account.removeprefix("variables/"), tuple(snapshot.t for snapshot in seen),
                tuple(resident), at_end, stated or 0.0, grows=True,
            )  # fmt: skip
        # reserved at once and touched bit by bit; what reserves more as it goes has no end
        if min(limits) < 0.98 * reserved or reserved < resident[0] + _WORTH_BYTES:
            return None
        fill = stated if stated is not None else resident[-1] / reserved
        path = account.removeprefix("variables/")
        final = full_bytes(resident[-1], reserved, fill)
    found = Filling(
        account,
        path,
        tuple(snapshot.t for snapshot in seen),
        tuple(resident),
        final,
        min(1.0, fill),
    )
    # empty, then full: made at once, not filled
    is_seen = any(_BEGUN * final < size < (1 - _BEGUN) * final for size in resident)
    return found if is_seen or not found.is_full else None


def _held_bytes(snapshot: Snapshot, account: str) -> int:
    """What an account holds, whether a snapshot lists it as one or in parts."""
    names = snapshot.sorted_accounts
    first, last = bisect_left(names, f"{account}."), bisect_left(names, f"{account}/")  # . before /
    return snapshot.resident(account) + sum(map(snapshot.resident, names[first:last]))


def _since_empty(account: str, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """The snapshots that show the account, and the last one before them: it was empty then."""
    first = next(i for i, snapshot in enumerate(snapshots) if _held_bytes(snapshot, account))
    shown = [snapshot for snapshot in snapshots[first:] if _held_bytes(snapshot, account)]
    return [*snapshots[max(0, first - 1) : first], *shown]


def _stated_end(snapshots: Sequence[Snapshot], account: str) -> int:
    """What a buffer will hold that allocates as it goes and says how full it is; 0: it does not.

    It must hold no more for each share of its capacity than it did: else something else grows.
    """
    first, last = snapshots[0], snapshots[-1]
    filled, fill = first.entries[account].fill or 0.0, last.entries[account].fill or 0.0
    if not 0 < filled < fill:
        return 0
    early, late = first.resident(account) / filled, last.resident(account) / fill
    reserved = last.entries[account].reserved_bytes
    return round(late) if late <= _SAME_PACE * early and reserved < 0.98 * late else 0


def _bounded_container(account: str, snapshots: Sequence[Snapshot]) -> ContainerContent | None:
    """The container of an account that states a capacity it may well reach."""
    for container in snapshots[-1].containers:
        if (
            container.account == account
            and container.capacity is not None
            and 0 < container.length <= container.capacity
            and _is_believable(container, container.length / container.capacity, snapshots)
        ):
            return container
    return None


def _is_believable(container: ContainerContent, fill: float, snapshots: Sequence[Snapshot]) -> bool:
    """A queue's maxsize may be 2^31, and a dictionary of columns has its rows' capacity."""
    if fill >= _BEGUN:
        return True
    if container.bytes / fill > _LARGEST_END_BYTES:
        return False
    same = (c for snapshot in snapshots for c in snapshot.containers if c.path == container.path)
    return any(c.length != container.length for c in same)
