"""Docs are code: every Python and console block is run, every field and option is described.

A block that is not run has a comment above it, `<!-- not run: reason -->`. 47068 stands for a live
process.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import ramledger
from ramledger.agent.launch_environment import environment_with_agent
from ramledger.ledger import Entry, LargeObject, Source, TypeCount
from ramledger.replay import Field, ReplayBuffer, Schema
from ramledger.units import GIB, KIB, MIB, parse_bytes
from tests.support.places import ROOT

pytestmark = pytest.mark.xdist_group("docs")

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BINARIES = Path(sys.executable).parent
EXAMPLE_PID = "47068"
LANGUAGES = {"console", "python", "json", "text", "yaml"}

FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    code: str
    reason: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in FENCE.finditer(text):
            line = text.count("\n", 0, found.start("code"))
            reason = found["reason"] or ""
            yield Block(page.name, line, found["language"], found["code"], reason)


BLOCKS = list(blocks())


RUN_ELSEWHERE = {"quickstart.md"}  # from its first command to its last: test_quickstart.py


def runnable(language: str) -> list[Block]:
    return [
        block
        for block in BLOCKS
        if block.language == language and not block.reason and block.page not in RUN_ELSEWHERE
    ]


@pytest.fixture(scope="module")
def live_pid() -> Iterator[int]:
    """A Python process with an agent, which waits."""
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; print('ready', flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment_with_agent(os.environ),
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid


TRAINING = """\
import time
for generation in range(8):
    print("generation", generation)
    time.sleep(0.15)
"""


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small train.py, a recording of it and a replay checkpoint."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "train.py").write_text(TRAINING)
    (folder / "ppo.toml").write_text('algorithm = "PPO"\nenv = "CartPole-v1"\n')
    command = [str(BINARIES / "ramledger"), "run", "--quiet"]
    command += ["--out", "train.ledger.jsonl", "--", sys.executable, "train.py"]
    subprocess.run(command, cwd=folder, capture_output=True, check=True, timeout=280)
    buffer = ReplayBuffer(Schema(Field((3,))), 100)
    buffer.add([0.0, 1.0, 2.0], 0.0, 0.0, [1.0, 2.0, 3.0], False)
    buffer.save(folder / "checkpoint")
    return folder


def test_every_block_says_what_it_is() -> None:
    assert {block.language for block in BLOCKS} <= LANGUAGES
    assert len(runnable("console")) >= 3
    assert len(runnable("python")) >= 4


@pytest.mark.parametrize("block", runnable("console"), ids=str)
def test_commands_run(block: Block, live_pid: int, training: Path) -> None:
    commands = re.findall(r"^\$ (.*)$", block.code, re.M)
    assert commands
    environment = os.environ | {"PATH": f"{BINARIES}{os.pathsep}{os.environ['PATH']}"}
    for command in commands:
        done = subprocess.run(
            command.replace(EXAMPLE_PID, str(live_pid)),
            shell=True,
            capture_output=True,
            text=True,
            env=environment,
            cwd=training,
            stdin=subprocess.DEVNULL,
            timeout=280,
        )
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout
        # a run and a rehearsal say what they have to say beside the answer
        runs = command.startswith(("ramledger run", "ramledger plan --rehearse"))
        assert runs or not done.stderr, (command, done.stderr)


@pytest.mark.parametrize("block", runnable("python"), ids=str)
def test_python_runs(block: Block, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(block.code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=280,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.parametrize("block", runnable("json"), ids=str)
def test_json_is_json(block: Block) -> None:
    json.loads(block.code)


@pytest.mark.parametrize("block", runnable("yaml"), ids=str)
def test_yaml_is_yaml(block: Block) -> None:
    assert yaml.safe_load(block.code)


def test_the_document_in_the_statement_page_is_one() -> None:
    (block,) = [block for block in runnable("json") if block.page == "statement.md"]
    document = json.loads(block.code)
    assert (
        ramledger.Statement.from_dict({"at": 0.0} | document).unexplained_bytes
        == (document["unexplained_bytes"])
    )


# ---- what is described is what there is --------------------------------------------------------


def described(page: str) -> set[str]:
    """Names in code style in the first column of the tables of a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    first_columns = re.findall(r"^\| (`[^|]*`) \|", text, re.M)
    return {name for cell in first_columns for name in re.findall(r"`\"?([^`\"]+)\"?`", cell)}


def test_every_field_of_the_document_is_described() -> None:
    statement = ramledger.record().snapshot()
    names = described("statement.md")
    assert statement.to_dict().keys() <= names
    assert Entry("a", 1, 1, Source.PATH).to_dict().keys() <= names
    for kind in (LargeObject, TypeCount):
        assert set(kind.__dataclass_fields__) <= names
    assert {str(source) for source in Source} <= names
    assert statement.facts.keys() <= names
    assert {"advice", "remarks"} <= names


def test_every_account_of_a_statement_is_described() -> None:
    statement = ramledger.record().snapshot()
    families = {entry.account.partition("/")[0] for entry in statement.entries}
    known = {name.partition("/")[0] for name in described("accounts.md")}
    assert families <= known


def verbs_with_a_page() -> list[str]:
    done = subprocess.run([BINARIES / "ramledger", "--help"], capture_output=True, text=True)
    listed = re.findall(r"^│ (\w+) ", done.stdout, re.M)
    return [verb for verb in listed if (ROOT / "docs" / f"{verb}.md").exists()]


def test_explain_has_a_page() -> None:
    assert "explain" in verbs_with_a_page()


@pytest.mark.parametrize("verb", verbs_with_a_page())
def test_every_option_is_described(verb: str) -> None:
    done = subprocess.run([BINARIES / "ramledger", verb, "--help"], capture_output=True, text=True)
    helps = [done.stdout]
    for part in re.findall(r"^│ (\w+)  ", done.stdout, re.M):
        command = [BINARIES / "ramledger", verb, part, "--help"]
        helps.append(subprocess.run(command, capture_output=True, text=True).stdout)
    options = set(re.findall(r"--[a-z][a-z-]+", "".join(helps))) - {"--help", "--version"}
    page = (ROOT / "docs" / f"{verb}.md").read_text(encoding="utf-8")
    assert options
    assert not {option for option in options if option not in page}


def test_what_the_readme_says_works_is_there() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## The verbs")[2].partition("## ")[0]
    working = re.findall(r"^\| `([\w-]+)[^|]*\|[^|]*\|$", table, re.M)
    done = subprocess.run([BINARIES / "ramledger", "--help"], capture_output=True, text=True)
    assert "explain" in working
    assert all(re.search(rf"^│ {verb} ", done.stdout, re.M) for verb in working)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target]
    assert not [target for target in targets if not (page.parent / target).exists()]


# ---- the picture -------------------------------------------------------------------------------


def test_the_statement_in_the_readme_balances_and_is_the_one_in_the_picture() -> None:
    texts = [b for b in BLOCKS if b.page == "README.md" and b.language == "text"]
    (block,) = [b for b in texts if "pid " in b.code]
    rows = re.findall(r"^(\S.*?) +(\d[\d.]* (?:B|KiB|MiB|GiB)) +[\d.]+%", block.code, re.M)
    sizes = {account: parse_bytes(size) for account, size in rows}
    rss = sizes.pop("RSS")
    units = [next(unit for unit in (GIB, MIB, KIB, 1) if size >= unit or unit == 1)
             for size in [rss, *sizes.values()]]  # fmt: skip
    assert len(sizes) > 8
    assert abs(sum(sizes.values()) - rss) <= sum(0.0501 * unit for unit in units)
    picture = (ROOT / "docs" / "statement.svg").read_text(encoding="utf-8")
    pid = re.search(r"pid (\d+)", block.code)
    assert pid is not None
    assert f"ramledger&#160;explain&#160;{pid[1]}" in picture


# ---- the site ----------------------------------------------------------------------------------


def test_every_page_is_in_the_site() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r": ([\w-]+\.md)$", site, re.M))
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")}


@pytest.mark.parametrize("name", ["cli_reference.py", "known_leaks.py"])
def test_pages_that_are_made_are_not_behind(name: str) -> None:
    script = ROOT / "docs" / name
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# ---- the map -----------------------------------------------------------------------------------

SOURCES = ROOT / "src" / "ramledger"


def test_places_in_the_source_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    places = set(re.findall(r"`([a-z_0-9/]+(?:/|\.py))`", text)) - {"docs/", "src/ramledger/"}
    assert len(places) > 20
    assert not [place for place in places if not (SOURCES / place).exists()]


def test_the_architecture_says_what_every_folder_is_for() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = {f"{path.parent.relative_to(SOURCES)}/" for path in SOURCES.rglob("*/__init__.py")}
    modules = {path.name for path in SOURCES.glob("[a-z]*.py") if "event" not in path.name}
    assert not [place for place in rooms | modules if f"`{place}`" not in text]


def test_the_architecture_draws_the_layers_of_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (c for c in settings["tool"]["importlinter"]["contracts"] if c["id"] == "layers")
    layers = re.findall(r"\w+", " ".join(contract["layers"]))
    (block,) = (block for block in BLOCKS if block.page == "architecture.md")
    entries = ("api", "process_session")  # of scripts and of callbacks
    rooms = [name for name in layers if (SOURCES / name).is_dir() or name in entries]
    assert re.findall(r"\w+", block.code) == rooms
