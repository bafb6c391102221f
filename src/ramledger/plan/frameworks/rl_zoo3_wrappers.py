"""Wrappers of rl-zoo3 entries that change what is stored: resized, gray, with time or history."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ramledger.plan.formulas.known_environments import is_atari, known_environment
from ramledger.plan.formulas.spaces import parse_action


def observation_after(entry: Mapping[str, Any], env: str) -> tuple[dict[str, str] | None, str]:
    """The observation behind an entry's wrappers, and the wrapper that leaves it unknown."""
    known = known_environment(env)
    boxes = dict(known.observation) if known else {}
    for name, arguments in _wrappers(entry.get("env_wrapper")):
        if name.endswith("AutoencoderWrapper"):
            return None, name
        if boxes and not is_atari(env):
            key = "" if "" in boxes else "observation"
            boxes[key] = _changed(boxes[key], name, arguments, known.action if known else "")
    return (boxes or None), ""


def _wrappers(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield item, {}
        elif isinstance(item, dict):
            for name, arguments in item.items():
                yield str(name), arguments if isinstance(arguments, dict) else {}


def _changed(text: str, name: str, arguments: Mapping[str, Any], action: str) -> str:
    shape, _, dtype = text.partition(":")
    sizes = shape.split("x")
    if name.endswith("ResizeObservation") and len(sizes) == 3:
        wanted = arguments.get("shape")
        if isinstance(wanted, list) and len(wanted) == 2:
            sizes = [str(wanted[0]), str(wanted[1]), sizes[2]]
    elif name.lower().endswith("grayscaleobservation") and len(sizes) == 3:
        sizes = [*sizes[:2], "1"]
    elif name.endswith("TimeFeatureWrapper") and len(sizes) == 1:
        sizes = [str(int(sizes[0]) + 1)]
    elif name.endswith("HistoryWrapper") and len(sizes) == 1:
        horizon = arguments.get("horizon", 2)
        width = int(sizes[0]) + math.prod(parse_action(action).sizes)
        sizes = [str(width * horizon if isinstance(horizon, int) else width)]
    else:
        return text
    return "x".join(sizes) + (f":{dtype}" if dtype else "")
