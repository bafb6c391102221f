"""Text of anybody's in Markdown: no markup, no HTML, no mention, no link, no further line.

Names and lines of code become code, in which GitHub and GitLab look for nothing; in sentences every
character with a meaning is written as an entity.
"""

from collections.abc import Iterable, Sequence

from ramledger.ledger import printable

_SPECIAL = frozenset("\\`*_[]<>#|~@&$")
_LINKING = frozenset("@#")  # `@name` and `#12` become links after Markdown was read
_NOT_IN_CODE = frozenset("`|\\")
_MOST_CHARACTERS = 400


def sentence(text: str) -> str:
    """Words with names in between."""
    return "".join(map(_entity, _cut(text))).replace("://", ":<!-- -->//")


def code(text: str) -> str:
    """A name, a path, a line of code; '' stays ''."""
    shown = _cut(text).strip()
    if not shown:
        return ""
    if _NOT_IN_CODE.isdisjoint(shown):
        return f"`{shown}`"
    return f"<code>{''.join(map(_entity, shown))}</code>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table of cells that are Markdown already; the columns `numbers` are aligned right."""
    rules = ("---:" if at in numbers else "---" for at in range(len(heads)))
    lines = (heads, tuple(rules), *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cut(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _MOST_CHARACTERS else shown[: _MOST_CHARACTERS - 1] + "…"


def _entity(character: str) -> str:
    if character not in _SPECIAL:
        return character
    return f"&#{ord(character)};" + ("<!-- -->" if character in _LINKING else "")
