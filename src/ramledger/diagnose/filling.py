"""Growth that ends by itself: buffers on their way to a capacity that is known."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ramledger.ledger import full_bytes
from ramledger.run.timeline import END, Look, Point, Timeline
from ramledger.units import MIB

_WORTH_BYTES = MIB
_LARGEST_END_BYTES = 1 << 40  # what ends beyond this never ends
_BEGUN = 0.05  # of its end: less is not begun, and what lacks less is done
_SAME_PACE = 1.3  # bytes for each share of the capacity, late over early
OWNERS = frozenset({"path", "claim", "recognized"})


@dataclass(frozen=True, slots=True)
class Filling:
    """One account with a known end: how much it holds over time, and at most."""

    account: str
    path: str
    times: tuple[float, ...]
    resident: tuple[int, ...]
    final_bytes: int
    fill: float  # at the last look
    grows: bool = False  # allocates as it goes: the allocator's overhead grows with it, uncounted

    def covers(self, account: str) -> bool:
        """Whether an account is this one, or one of its parts, as some looks list them."""
        return is_part(account, self.account)

    @property
    def growth_bytes(self) -> int:
        return self.resident[-1] - self.resident[0]

    @property
    def is_full(self) -> bool:
        return self.fill >= 0.995

    def at(self, t: float) -> float:
        """Resident bytes at a time, between looks by interpolation."""
        times, values = self.times, self.resident
        if t <= times[0]:
            # before the first look: on the line of the first two, but never below zero
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
    """Accounts that grow towards a capacity, or have reached it while we looked."""
    looks = live_looks(timeline)
    if len(looks) < 2:
        return []
    accounts = sorted({name for look in looks for name in look.accounts})
    found: list[Filling] = []
    for name in accounts:  # wholes come before their parts
        filling = None if any(f.covers(name) for f in found) else _filling(name, looks)
        if filling is not None and filling.growth_bytes >= _WORTH_BYTES:
            found.append(filling)
    return found


def is_part(account: str, whole: str) -> bool:
    """Whether `a.b.c` is `a.b` or a part of it."""
    return account == whole or account.startswith(whole + ".")


def live_looks(timeline: Timeline) -> list[Look]:
    """Looks into the running program; what is seen at its exit is another story."""
    return [look for look in timeline.looks if look.label != END]


def unexplained_level(points: Sequence[Point], fillings: Sequence[Filling]) -> list[float]:
    """Anonymous memory at each point, less what is filling by rights."""
    return [point.anon - sum(filling.at(point.t) for filling in fillings) for point in points]


def _filling(account: str, looks: Sequence[Look]) -> Filling | None:
    seen = [look for look in looks if account in look.accounts]
    if not seen or seen[-1].accounts[account].get("source") not in OWNERS:
        return None
    last = seen[-1].accounts[account]
    container = _bounded_container(account, seen)
    if container is not None:
        seen = _since_empty(account, looks)
    if len(seen) < 2:
        return None
    resident = [_held(look, account) for look in seen]
    if container is not None:
        fill = min(1.0, container["length"] / container["capacity"])
        final = round(resident[-1] / max(fill, 1e-6))
        path = str(container["path"])
    else:
        limits = [int(look.accounts[account].get("reserved_bytes") or 0) for look in seen]
        reserved = limits[-1]
        stated = last.get("fill")
        at_end = _stated_end(seen, account)
        if at_end:
            return Filling(
                account, account.removeprefix("variables/"), tuple(look.t for look in seen),
                tuple(resident), at_end, float(stated or 0.0), grows=True,
            )  # fmt: skip
        # reserved at once and touched bit by bit; what reserves more as it goes has no end
        if min(limits) < 0.98 * reserved or reserved < resident[0] + _WORTH_BYTES:
            return None
        fill = float(stated) if isinstance(stated, int | float) else resident[-1] / reserved
        path = account.removeprefix("variables/")
        final = full_bytes(resident[-1], reserved, fill)
    found = Filling(
        account, path, tuple(look.t for look in seen), tuple(resident), final, min(1.0, fill)
    )
    # empty, then full: made at once, not filled
    is_seen = any(_BEGUN * final < size < (1 - _BEGUN) * final for size in resident)
    return found if is_seen or not found.is_full else None


def _held(look: Look, account: str) -> int:
    """What an account holds, whether a look lists it as one or in parts."""
    names = look.sorted_names
    first, last = bisect_left(names, f"{account}."), bisect_left(names, f"{account}/")  # . before /
    return look.resident(account) + sum(map(look.resident, names[first:last]))


def _since_empty(account: str, looks: Sequence[Look]) -> list[Look]:
    """The looks that show the account, and the last one before them: it was empty then."""
    first = next(i for i, look in enumerate(looks) if _held(look, account))
    shown = [look for look in looks[first:] if _held(look, account)]
    return [*looks[max(0, first - 1) : first], *shown]


def _stated_end(looks: Sequence[Look], account: str) -> int:
    """What a buffer will hold that allocates as it goes and says how full it is; 0: it does not.

    It must hold no more for each share of its capacity than it did: else something else grows.
    """
    first, last = looks[0], looks[-1]
    filled, fill = _fill(first, account), _fill(last, account)
    if not 0 < filled < fill:
        return 0
    early, late = first.resident(account) / filled, last.resident(account) / fill
    reserved = int(last.accounts[account].get("reserved_bytes") or 0)
    return round(late) if late <= _SAME_PACE * early and reserved < 0.98 * late else 0


def _fill(look: Look, account: str) -> float:
    found = look.accounts[account].get("fill")
    return float(found) if isinstance(found, int | float) else 0.0


def _bounded_container(account: str, looks: Sequence[Look]) -> Mapping[str, Any] | None:
    """The container of an account that states a capacity it may well reach."""
    for container in looks[-1].containers:
        capacity, length = container.get("capacity"), container.get("length")
        if (
            container.get("account") == account
            and isinstance(capacity, int)
            and isinstance(length, int)
            and 0 < length <= capacity
            and _is_believable(container, length / capacity, looks)
        ):
            return container
    return None


def _is_believable(container: Mapping[str, Any], fill: float, looks: Sequence[Look]) -> bool:
    """A queue's maxsize may be 2^31, and a dictionary of columns has its rows' capacity."""
    if fill >= _BEGUN:
        return True
    size = container.get("bytes")
    if isinstance(size, int) and size / fill > _LARGEST_END_BYTES:
        return False
    path, length = container.get("path"), container.get("length")
    before = [c.get("length") for look in looks for c in look.containers if c.get("path") == path]
    return any(one != length for one in before)
