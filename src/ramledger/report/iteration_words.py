"""What is counted as an iteration in a run, in one sentence."""

import re

_LOOP = re.compile(r"(?P<file>[^:]+):(?P<function>.+), line (?P<line>\d+)")
_WHOLE_FILE = "<module>"
_SENTENCES = {
    "": "one pass through all phases",
    "iteration": "one training iteration of the framework",
    "phases": "one pass through the phases that the program marks",
    "the program": "one that the program numbers itself",
    "trial": "one trial of the study",
}


def iteration_sentence(counted_by: str, *, is_known: bool) -> str:
    """`An iteration here is one pass of the loop at train.py:168, in run().`"""
    if not is_known:
        return "No iterations were found in this run, so rates are per minute."
    return f"An iteration here is {_what(counted_by)}."


def _what(counted_by: str) -> str:
    known = _SENTENCES.get(counted_by)
    if known is not None:
        return known
    loop = _LOOP.fullmatch(counted_by)
    if loop is None:
        return f"the time from one {counted_by} to the next"
    function = loop["function"]
    where = "" if function == _WHOLE_FILE else f", in {function}()"
    return f"one pass of the loop at {loop['file']}:{loop['line']}{where}"
