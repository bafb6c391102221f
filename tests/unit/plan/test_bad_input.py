"""Bad input: a ConfigError that names the place and the fix, never a crash, never code run."""

import sys
import time
from pathlib import Path
from typing import Any

import pytest

import ramledger
from ramledger.errors import ConfigError
from ramledger.plan.formulas.spaces import parse_action, parse_box
from ramledger.plan.make_plan import plan
from ramledger.plan.plan_config import config_from
from ramledger.plan.sources.any_source import read_source
from ramledger.plan.sources.command_line_values import given_values

GOOD: dict[str, Any] = {"algorithm": "PPO", "observation": "8", "action": "discrete:2"}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"n_envs": 0}, "n_envs"),
        ({"n_envs": -3}, "n_envs"),
        ({"n_envs": 10**9}, "n_envs"),
        ({"n_envs": "many"}, "n_envs"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"net_arch": [64, -1]}, "net_arch"),
        ({"net_arch": {"pu": [64]}}, "net_arch"),
        ({"algorithm": "PPPO"}, "PPPO"),
        ({"algorithm": "SAC"}, "continuous"),
        ({"algorithm": "DQN", "action": "box:3"}, "discrete"),
        ({"observation": "0x3"}, "0x3"),
        ({"observation": "84x84x3:uint9"}, "uint9"),
        ({"observation": "banana"}, "banana"),
        ({"observation": {}}, "observation"),
        ({"observation": "9" * 40}, "observation"),
        ({"action": "discret:3"}, "discret:3"),
        ({"action": "discrete:0"}, "discrete:0"),
        ({"machine": {"ram": "32 GBB"}}, "GBB"),
        ({"machine": {"ram": "-4GiB"}}, "-4GiB"),
        ({"machine": {"cpus": 3}}, "machine"),
        ({"nenvs": 3}, "nenvs"),
        ({"env_memory": "12 parsecs"}, "parsecs"),
        ({"policy": "CnnPolicy"}, "CNN"),
        ({"policy": "CnnPolicy", "observation": "8x8x3:uint8"}, "36x36"),
        ({"framework": "keras"}, "framework"),
    ],
)
def test_a_wrong_value_is_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan({**GOOD, **changes})
    assert named in caught.value.message
    assert caught.value.hint


def test_a_missing_shape_says_how_to_give_it() -> None:
    with pytest.raises(ConfigError) as caught:
        plan({"algorithm": "PPO", "env": "MyGame-v0"})
    assert "MyGame-v0" in caught.value.message
    assert "--obs" in caught.value.hint
    assert "--probe" in caught.value.hint


def test_a_typo_in_a_key_gets_the_right_one() -> None:
    with pytest.raises(ConfigError) as caught:
        config_from({**GOOD, "buffersize": 3}, "a.toml")
    assert caught.value.message.startswith("a.toml")
    assert "buffer_size" in caught.value.hint


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


BOMB = "\n".join(
    ["a: &a [x,x,x,x,x,x,x,x,x]"]
    + [
        f"{k}: &{k} [{','.join([f'*{p}'] * 9)}]"
        for p, k in zip("abcdefghi", "bcdefghij", strict=True)
    ]
)
MERGE_BOMB = "\n".join(
    ["a: &a {x: 1}"]
    + [
        f"{k}: &{k} {{<<: [{','.join([f'*{p}'] * 9)}]}}"
        for p, k in zip("abcdefghi", "bcdefghij", strict=True)
    ]
)


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("bomb.yaml", BOMB, "values"),
        ("merge.yml", MERGE_BOMB, "values"),
        ("loop.yaml", "a: &a [*a]", "deep"),
        ("deep.yaml", "[" * 3000, "deep"),
        ("deep.json", "[" * 100_000, "deep"),
        ("deep.toml", "a = " + "[" * 3000 + "]" * 3000, "deep"),
        ("tag.yaml", "a: !!python/object/apply:os.system ['touch /tmp/ramledger-was-run']", "tag"),
        ("own-tag.yaml", "a: !Thing 3", "tag"),
        ("broken.yaml", "a: [1, 2", "broken.yaml:"),
        ("broken.toml", "a = ", "broken.toml"),
        ("broken.json", '{"a": 1,}', "broken.json:1"),
        ("list.toml", "algorithm = ['PPO']", "algorithm"),
        ("list.json", "[1, 2]", "table"),
        ("empty.yaml", "", "table"),
        ("self.toml", 'include = "self.toml"', "itself"),
        ("gone.toml", 'include = "nowhere.toml"', "nowhere.toml"),
        ("number.toml", "include = 3", "include"),
        ("train.py", "def f(:\n", "train.py:1"),
        ("deep.py", "x = " + "(" * 5000 + ")" * 5000, "deep.py"),
        ("empty.py", "print('hello')\n", "no training"),
        ("train.txt", "PPO", "unknown kind"),
    ],
)
def test_a_file_that_makes_no_sense(tmp_path: Path, name: str, text: str, named: str) -> None:
    path = write(tmp_path, name, text)
    begin = time.process_time()
    with pytest.raises(ConfigError) as caught:
        read_source(path)
    assert named in caught.value.message
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint
    # a bomb is refused by counting, long before it has gone off
    assert time.process_time() - begin < 20
    assert not Path("/tmp/ramledger-was-run").exists()


def test_without_pyyaml_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # what an interpreter without it does: the import fails
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigError) as caught:
        read_source(write(tmp_path, "ppo.yml", "a: 1"))
    assert "PyYAML" in caught.value.message
    assert "ramledger[yaml]" in caught.value.hint


def test_two_files_that_include_each_other(tmp_path: Path) -> None:
    first = write(tmp_path, "a.toml", 'include = "b.toml"')
    write(tmp_path, "b.toml", 'include = "a.toml"')
    with pytest.raises(ConfigError, match=r"includes itself \(a.toml > b.toml > a.toml\)"):
        read_source(first)


def test_an_include_lies_under_the_file_that_includes_it(tmp_path: Path) -> None:
    write(tmp_path, "base.toml", 'algorithm = "SAC"\nobservation = "3"\naction = "box:1"')
    path = write(tmp_path, "job.toml", 'include = "base.toml"\nbuffer_size = 5')
    config = read_source(path).config
    assert (config.algorithm, config.buffer_size) == ("SAC", 5)


@pytest.mark.parametrize("text", ["n_envs", "=3", ""])
def test_a_set_option_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="NAME=VALUE"):
        given_values([text], {})


def test_a_script_is_never_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    path = write(
        tmp_path,
        "train.py",
        f"open({str(mark)!r}, 'w')\n"
        "from stable_baselines3 import PPO\n"
        "n = __import__('os').system('true')\n"
        "model = PPO('MlpPolicy', 'CartPole-v1', n_steps=n)\n",
    )
    reading = read_source(path)
    assert not mark.exists()
    assert any("n_steps" in line for line in reading.unresolved)


@pytest.mark.parametrize(
    "expression", ["9**9**9", "10**400", "'x' * 10**9", "[0] * 10**12", "1/0", "f(" * 50 + ")" * 50]
)
def test_an_absurd_expression_stays_unresolved(tmp_path: Path, expression: str) -> None:
    path = write(
        tmp_path,
        "train.py",
        "from stable_baselines3 import PPO\n"
        f"n = {expression}\n"
        "PPO('MlpPolicy', 'CartPole-v1', n_steps=n)\n",
    )
    reading = read_source(path)
    assert reading.config.n_steps is None
    assert reading.unresolved


def test_a_plan_of_nothing() -> None:
    with pytest.raises(ConfigError, match="must be a path, a mapping or a config, got int"):
        ramledger.plan(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["84x84x3", "84 x 84 x 3:uint8", "84,84,3:uint8"])
def test_shapes_may_be_written_in_several_ways(text: str) -> None:
    box = parse_box(text)
    assert (box.shape, box.dtype) == ((84, 84, 3), "uint8")
    assert str(parse_action("MultiDiscrete: 3, 5")) == "multidiscrete:3,5"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('algorithm = "PPO"', "observation's shape"),
        ('observation = "8"\n[machine]\nram = "32 GBB"', "machine.ram: unknown unit 'GBB'"),
        ('observation = "8"\nenv_memory = "9 parsecs"', "env_memory: "),
        ('observation = "8x8:uint9"', "uint9"),
        ("updates = 3\nlearners = 40", "learners must be at most population (16), got 40"),
    ],
)
def test_an_error_names_the_file_and_the_field(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "job.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        plan(str(path))
    assert caught.value.message.startswith(f"{path}: ")
    assert named in caught.value.message
    assert caught.value.hint
