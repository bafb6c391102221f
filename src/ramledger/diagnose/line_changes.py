"""The one line to change, in the user's own names: `losses.append(loss)` → `….append(loss.item())`.

Only where the line that stores is known and says it all; never applied by us.
"""

import re

from ramledger.diagnose.finding import Cause, CodeLines

_NAME = r"[A-Za-z_][\w.]*(?:\[[^\]\[]*\])?"
_ADDS = re.compile(rf"(?P<head>{_NAME}\.(?:append|appendleft|add))\((?P<what>{_NAME})\)$")
_SUMS = re.compile(rf"(?P<head>{_NAME}\s*(?:\+=|=\s*{_NAME}\s*\+))\s*(?P<what>{_NAME})$")
_KEEPS = re.compile(rf"(?P<head>{_NAME}\s*=)\s*(?P<what>{_NAME})$")
_SCALAR = re.compile(r"loss|return|reward|score|value|td_error|entropy|kl\b", re.IGNORECASE)


def changed_line(cause: Cause, code: CodeLines) -> str:
    """`train.py:29: losses.append(loss) → losses.append(loss.item())`; '' where nothing is sure."""
    for line in code.stored_at:
        place, text = _parts(line)
        changed = _changed(cause, text)
        if changed:
            return f"{place}: {text} → {changed}"
    return ""


def _parts(line: str) -> tuple[str, str]:
    """`train.py:29` and the text of `train.py:29 in Journal.log: self.pages.append(page)`."""
    place, _, rest = line.partition(" in ")
    return place, rest.partition(": ")[2].partition("  #")[0].strip()


def _changed(cause: Cause, text: str) -> str:
    if cause is Cause.GRAPH_RETENTION:
        return _without_graph(text)
    added = _ADDS.match(text)
    if cause is Cause.UNBOUNDED_CONTAINER and added is not None:
        name = added["head"].rpartition(".")[0]
        return f"{text} with {name} = collections.deque(maxlen=N) where it is made"
    return ""


def _without_graph(text: str) -> str:
    for pattern, close in ((_ADDS, ")"), (_SUMS, ""), (_KEEPS, "")):
        found = pattern.match(text)
        if found is None:
            continue
        what = found["what"]
        is_scalar = bool(_SCALAR.search(what)) and pattern is not _KEEPS
        bare = f"{what}.item()" if is_scalar else f"{what}.detach()"
        gap = "(" if close else " "
        return f"{found['head']}{gap}{bare}{close}"
    return ""
