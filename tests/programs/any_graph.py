"""Takes one snapshot of a given object graph and prints what that cost the program.

`longest_hold_seconds` is processor time that the snapshot's thread took between two moments in
which the main thread ran: other programs on the machine do not count in it.
"""

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ramledger.agent.snapshot_event import take_snapshot
from ramledger.event_encoding import encode, json_line
from ramledger.events import SnapshotEvent
from ramledger.objects.census.class_growth import CountHistory

MILLION = 1_000_000


class Plain:
    def __init__(self, held: Any) -> None:
        self.held = held


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


def closure(held: Any) -> Any:
    return lambda: held


def generator(held: Any) -> Iterator[Any]:
    def waiting(kept: Any) -> Iterator[Any]:
        yield None
        yield kept

    made = waiting(held)
    next(made)
    return made


LINKS: dict[str, Callable[[Any], Any]] = {
    "dict": lambda held: {"a": held},
    "list": lambda held: [held],
    "tuple": lambda held: (held, []),
    "object": Plain,
    "slots": Slotted,
    "closure": closure,
    "generator": generator,
    "deque": lambda held: deque([held]),
    "mixed": lambda held: {"a": [Plain((held,))]},
}


def chain(link: Callable[[Any], Any], length: int) -> Any:
    node = None
    for _ in range(length):
        node = link(node)
    return node


def tree(link: Callable[[list[Any]], Any], width: int, depth: int) -> Any:
    return link([tree(link, width, depth - 1) for _ in range(width)] if depth else [])


def long_names(count: int) -> list[Any]:
    made: list[Any] = []
    for number in range(count):
        one = type("C" * MILLION + str(number), (), {})()
        one.__dict__["a" * MILLION + str(number)] = {"k" * MILLION + str(number): [number]}
        made.append(one)
    return made


def many_attributes(count: int) -> Any:
    one = Plain(None)
    one.__dict__.update((f"name{number}", [number]) for number in range(count))
    return one


SHAPES: dict[str, Callable[[int], Any]] = {
    **{f"chain of {name}": partial(chain, link) for name, link in LINKS.items()},
    "tree of lists": lambda n: tree(lambda below: below, 10, n),
    "tree of dicts": lambda n: tree(lambda below: {f"k{i}": b for i, b in enumerate(below)}, 10, n),
    "tree of objects": lambda n: tree(Plain, 10, n),
    "list of lists": lambda n: [[] for _ in range(n)],
    "list of tuples": lambda n: [(number, []) for number in range(n)],
    "list of objects": lambda n: [Plain(number) for number in range(n)],
    "list of long lists": lambda n: [[[] for _ in range(1_000)] for _ in range(n)],
    "dict of lists": lambda n: {number: [] for number in range(n)},
    "dict of dicts": lambda n: {number: {"x": [number]} for number in range(n)},
    "deque of lists": lambda n: deque([] for _ in range(n)),
    "set of tuples": lambda n: {(number,) for number in range(n)},
    "long names": long_names,
    "many attributes": many_attributes,
    "shared tuples": lambda n: [chain(lambda held: (held, held), n)],
}


def status_bytes(field: str) -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(field))


def main(shape: str, size: int, census: bool) -> None:
    graph = SHAPES[shape](size)
    clock: list[int] = []
    found: list[SnapshotEvent] = []

    def look() -> None:
        clock.append(time.pthread_getcpuclockid(threading.get_ident()))
        event, _, _ = take_snapshot(
            generation=1, phase="", count_objects=census, history=CountHistory()
        )
        found.append(event)

    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    before_bytes = status_bytes("VmRSS:")
    looking = threading.Thread(target=look)
    looking.start()
    longest, last = 0.0, None
    while looking.is_alive():
        try:
            now = time.clock_gettime(clock[0]) if clock else None
        except OSError:  # it has ended
            break
        if now is not None and last is not None:
            longest = max(longest, now - last)
        last = now
    looking.join()
    [event] = found
    statement = event.statement
    rows = sum(entry.resident_bytes for entry in statement.entries)
    print(
        json.dumps(
            {
                "longest_hold_seconds": longest,
                "temporary_bytes": status_bytes("VmHWM:") - before_bytes,
                "cost_seconds": event.cost_seconds,
                "is_balanced": rows + statement.unexplained_bytes == statement.rss_bytes,
                "event_bytes": len(json_line(encode(event))),
                "tracked_objects": event.tracked_objects,
                "notes": statement.notes,
            }
        )
    )
    sys.stdout.flush()
    del graph


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "census")
    # a chain of 100,000 generators is not worth the time that its end takes
    import os

    os._exit(0)
