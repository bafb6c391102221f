"""Sources made to be expensive: an answer or a ConfigError, in little memory, and no waiting."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ramledger.errors import ConfigError
from ramledger.plan.make_plan import plan
from ramledger.plan.sources.any_source import read_source
from ramledger.plan.sources.script_names import Scope
from tests.support.mutated_plans import SOURCES, mutations

MIB = 1 << 20
MAX_RSS_BYTES = 300 * MIB
SECONDS = 120  # a hang is seen, a busy machine is not
MUTATIONS = 2_700

DRIVER = """
import json, resource, sys
from ramledger.errors import ConfigError
from ramledger.plan.make_plan import plan
from ramledger.plan.sources.any_source import read_source
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, resource.RLIM_INFINITY))
try:
    said = plan(read_source(sys.argv[1])).config["n_steps"]
except ConfigError as error:
    said = [error.message, error.hint]
with open("/proc/self/status") as status:  # ru_maxrss has that of the parent, too
    peak = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))
print(json.dumps([said, peak]))
"""
IMPORT = "from stable_baselines3 import PPO\n"
MODEL = "PPO('MlpPolicy', 'CartPole-v1', n_steps=n)\n"
DIGITS = "9" * 5_000
OWN = 'algorithm = "PPO"\nobservation = "8"\naction = "discrete:2"\n'


def lines(text: str, count: int) -> str:
    return "".join(text.replace("#", str(number)) for number in range(count))


ANSWERED = {
    "calls": lines("PPO('MlpPolicy', 'CartPole-v1', n_steps=64)\n", 6_000) + "n = 64\n",
    "names with calls": lines("a# = dict(x=#)\n", 9_000) + "n = 64\n",
    "branches": lines("if x == #:\n    n# = #\n", 9_000) + "n = 64\n",
    "functions": lines("def f#(a=1, b=2):\n    g(a)\n", 5_000) + "n = 64\n",
    "arguments": lines("parser.add_argument('--a#', default=#)\n", 6_000) + "n = 64\n",
    "lists that double": "a = [0] * 50_000\n" + "a = a + a\n" * 40 + "n = 64\n",
    "lists that are spread": "a = [0] * 50_000\n" + "a = [*a, *a]\n" * 40 + "n = 64\n",
    "texts that double": "a = 'x' * 50_000\n" + "a = f'{a}{a}'\n" * 40 + "n = 64\n",
    "tables in tables": "a = dict(a=1)\n" + "a = dict(a=a, b=a)\n" * 60 + "b = str(a)\nn = 64\n",
    "a table in itself": "a = {}\na['a'] = a\nb = [a] == [a]\nn = 64\n",
    "powers of powers": "a = 2\n" + "a = a ** 64\n" * 9 + "n = 64\n",
    "shifts": "a = 1\n" + "a = a << 62\n" * 2_000 + "n = 64\n",
    "bytes": "a = b'x' * 10**10\nb = b'%09999999999d' % 1\nn = 64\n",
    "digits to round to": "a = round(5, -10**9)\nn = 64\n",
    "hexadecimal": f"a = 0x{'f' * 100_000}\nn = 64\n",
}  # fmt: skip


def outcome(path: Path) -> tuple[object, int]:
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, path], capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    said, peak_bytes = json.loads(done.stdout)
    return said, peak_bytes


@pytest.mark.parametrize("name", ANSWERED)
def test_a_script_is_answered_in_bounded_memory(name: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(IMPORT + ANSWERED[name] + MODEL)
    said, peak_bytes = outcome(path)
    assert said == 64
    assert peak_bytes < MAX_RSS_BYTES


def include_twice(folder: Path) -> str:
    for number in range(30):
        name = f"i{number + 1}.toml"
        (folder / f"i{number}.toml").write_text(f'include = ["{name}", "{name}"]\n')
    (folder / "i30.toml").write_text(OWN)
    return 'include = "i0.toml"\n'


def doubling(body: str) -> str:
    """Ten aliases, each of which has the one before several times."""
    return "".join(f"a{n + 1}: &a{n + 1} {body.replace('#', str(n))}\n" for n in range(10))


# 40 keys, then 4,000 times those, then 4,000 times that
MANY_MERGES = (
    "a: &a {" + ", ".join(f"k{number}: 1" for number in range(40)) + "}\n"
    "b: &b {<<: [" + ", ".join(["*a"] * 4_000) + "]}\n"
    "c: {<<: [" + ", ".join(["*b"] * 4_000) + "]}\n"
)
REFUSED = {
    "60,000 calls.py": (IMPORT + lines("PPO('MlpPolicy', 'CartPole-v1')\n", 60_000), "words"),
    "statements.py": (IMPORT + "x=1;" * 500_000, "words"),
    "digits.py": (IMPORT + f"n = {DIGITS}\n" + MODEL, "digits.py:2"),
    "digits.toml": (OWN + f"n_steps = {DIGITS}\n", "number"),
    "digits.yaml": (f"n_steps: {DIGITS}\n", "not a valid int"),
    "digits.json": (f'{{"n_steps": {DIGITS}}}', "number"),
    "hexadecimal.toml": (OWN + f"n_steps = 0x{'f' * 9_000}\n", "number"),
    "shape.toml": (f'algorithm = "PPO"\nobservation = "{DIGITS}"\n', "shape"),
    "choices.toml": (f'observation = "8"\naction = "discrete:{DIGITS}"\n', "must have sizes"),
    "ram.toml": (OWN + f'[machine]\nram = "{DIGITS}GiB"\n', "out of range"),
    "sum.py": (IMPORT + "n = " + "+".join(["1"] * 20_000) + "\n" + MODEL, "nested"),
    "attributes.py": (IMPORT + "n = a" + ".b" * 20_000 + "\n" + MODEL, "nested"),
    "elif.py": (IMPORT + "if x: pass\n" + lines("elif x == #: n = #\n", 9_000), "nested"),
    "long key.toml": ("a." * 120_000 + "a = 1", "nested"),
    "day.yaml": ("n_steps: 2001-99-99\n", "not a valid timestamp"),
    "switch.yaml": ("n_steps: !!bool maybe\n", "not a valid bool"),
    "aliases.yaml": ("a0: &a0 [1]\n" + doubling("[*a#, *a#, *a#, *a#, *a#, *a#, *a#]"), "values"),
    "merges.yaml": ("a0: &a0 {k: 1}\n" + doubling("{<<: [*a#, *a#, *a#, *a#, *a#]}"), "values"),
    "merges of many.yaml": (MANY_MERGES, "values"),
    "itself.yaml": ("a: &a {b: *a}\n", "nested"),
    "merged itself.yaml": ("a: &a\n  <<: *a\n", "nested"),
    "object.yaml": ("a: !!python/object/apply:os.system ['true']\n", "tag"),
    "set.yaml": ("a: !!set {b, c}\n", "tag"),
    "nodes.yaml": ("a: [" + "1, " * 60_000 + "]", "values"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_source_is_refused_in_bounded_memory(name: str, tmp_path: Path) -> None:
    text, named = REFUSED[name]
    path = tmp_path / name
    path.write_text(text)
    said, peak_bytes = outcome(path)
    assert isinstance(said, list), said
    assert named in said[0]
    assert said[1], "a hint"
    assert peak_bytes < MAX_RSS_BYTES


def test_files_that_include_each_other_twice(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(include_twice(tmp_path))
    said, _ = outcome(path)
    assert isinstance(said, list)
    assert "at most 100 files" in said[0]


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_whatever_is_broken_is_answered_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in SOURCES.items():
        Path(name).write_text(text)
    answers = refusals = 0
    for name, broken in mutations(seed=20, count=MUTATIONS):
        Path(name).write_bytes(broken)
        try:
            budget = plan(read_source(name, env="CartPole-v1" if name.endswith(".yml") else ""))
            json.dumps(budget.to_dict())
            answers += 1
        except ConfigError as error:
            assert error.message
            assert error.hint
            refusals += 1
        except Exception as error:
            pytest.fail(f"{error!r} for {broken!r}")
    # neither side may be empty: then the mutations would try nothing
    assert min(answers, refusals) > MUTATIONS // 20


def test_a_place_keeps_what_was_known_there() -> None:
    names = Scope()
    names["a"] = 1
    before = names.now()
    names["a"] = 2
    inner = names.inner()
    inner["b"] = 3
    del inner["a"]
    names["c"] = 4
    assert (before["a"], names["a"], dict(before)) == (1, 2, {"a": 1})
    assert (dict(inner), dict(names)) == ({"b": 3}, {"a": 2, "c": 4})
    assert "a" not in inner
    names.add_missing(inner)
    assert dict(names) == {"a": 2, "c": 4, "b": 3}
    assert names.work is inner.work
