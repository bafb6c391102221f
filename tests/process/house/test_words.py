"""The words of the project: what pages and messages never say, and what the glossary explains."""

import re
from pathlib import Path

import pytest

from tests.support.places import ROOT

PAGES = sorted((ROOT / "docs").glob("*.md"))
SOURCES = ROOT / "src" / "ramledger"

# what new users did not understand, in lower case
BAD_PHRASES = (
    "under the ledger", "command stays itself", "elements to it while they were counted",
    "would decide", "of late", "memory appeared", "freed before, but kept",
    "end is not in here", "had it gone on", "stronger is more", "between looks", "looks? inside",
    "deep look", "deep snapshot", "reset again and again", "answer is bad",
    "callbacks ran under memory pressure", "laid over each other", "capacity was of use",
    "second ones rest", "a configuration with --resume", "nothing runs there",
    "by what that saves", "comes round again", "interval reaches below zero",
    "much more alive than they are", "borders of phases", "can neither color",
    "what is to be told", "times its cost without", "by rights", "leaves word of",
    "told apart", "ever more", "ever new", "whose fault", "grows no more",
    "b a generation", "generation 0:", "the books", "balances against", "limit was near:",
    "save .*, of .* kept", "plateaus at", "account, .* ago",
)  # fmt: skip
_BAD = re.compile("|".join(rf"\b{phrase}" for phrase in BAD_PHRASES), re.I)


def texts() -> list[Path]:
    """Everything in docs and in the package that holds words for people."""
    found = [ROOT / "README.md", *PAGES, *(ROOT / "docs").glob("*.py")]
    for path in sorted(SOURCES.rglob("*")):
        if path.suffix in (".py", ".js", ".html", ".toml"):
            found.append(path)
    return found


def test_no_page_or_message_says_what_nobody_understood() -> None:
    files = texts()
    assert len(files) > 300
    found = []
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if hit := _BAD.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {hit[0]}")
    assert not found


# ---- the glossary ------------------------------------------------------------------------------

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
WORDS = dict(re.findall(r"^### (.+)\n\n(.+)\n", GLOSSARY, re.M))
# words with one meaning in text, code and files
HOUSE_WORDS = (
    "account", "budget", "claim", "entry", "event", "finding", "growth statement", "iteration",
    "owner", "phase", "reconcile", "recording", "rehearsal", "remedy", "sample", "series",
    "shape", "snapshot", "statement", "transition",
)  # fmt: skip


def test_the_glossary_is_alphabetical_with_one_sentence_a_word() -> None:
    assert set(HOUSE_WORDS) <= WORDS.keys()
    assert GLOSSARY.count("\n### ") == len(WORDS)
    assert list(WORDS) == sorted(WORDS, key=str.lower)
    for word, sentence in WORDS.items():
        text = re.sub(r"`[^`]*`|\([^()]*\)", "", sentence)
        assert sentence.endswith("."), word
        assert text.count(". ") == 0, (word, sentence)
    paragraphs = GLOSSARY.partition("###")[2].strip().split("\n\n")
    assert len(paragraphs) == 2 * len(WORDS)


@pytest.mark.parametrize("word", HOUSE_WORDS)
def test_every_house_word_is_linked_from_a_page(word: str) -> None:
    link = f"(glossary.md#{word.replace(' ', '-')})"
    assert [page.name for page in PAGES if link in page.read_text(encoding="utf-8")]
