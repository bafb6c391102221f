"""Rehearsals: a plan from a little of a run, and programs that do not want to be rehearsed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import ramledger
from tests.support.places import PROGRAMS
from tests.support.recorded_programs import COMMAND

MIB = 1 << 20
PROGRAM = [sys.executable, str(PROGRAMS / "rehearsed.py")]
ELEMENT_BYTES = 3000 * 8
LENGTH = "25 iterations"  # however busy the machine is


def rehearsed(
    *arguments: str, length: str = LENGTH, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    words = [COMMAND, "plan", "--rehearse", length, *options, "--", *PROGRAM, *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


def document(
    *arguments: str, length: str = LENGTH, options: tuple[str, ...] = ()
) -> dict[str, Any]:
    done = rehearsed(*arguments, length=length, options=("--json", *options))
    assert done.returncode in (0, 3), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def buffer_row(plan: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = next(r for r in plan["accounts"] if r["account"].endswith("buffer"))
    return row


def test_a_buffer_is_forecast_from_a_part_of_it(tmp_path: Path) -> None:
    plan = document("fills")
    assert plan["schema"] == "ramledger.plan/1"
    assert plan["training"]["iterations"] == 120
    row = buffer_row(plan)
    assert "of 2,000 elements" in row["formula"]
    assert row["bytes"] == pytest.approx(2000 * ELEMENT_BYTES, rel=0.1)
    # the whole run, against the plan
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    words = [COMMAND, "run", "--quiet", "--json", "--plan", str(path)]
    words += ["--out", str(tmp_path / "run.jsonl")]
    done = subprocess.run([*words, "--", *PROGRAM, "fills"], capture_output=True, check=True)
    graded = {row["account"]: row for row in json.loads(done.stdout)["plan"]}
    peak = graded["peak of all processes"]
    assert peak["planned_bytes"] == pytest.approx(peak["measured_bytes"], rel=0.15)
    assert "variables" in graded


def test_a_larger_buffer_is_asked_for() -> None:
    plan = document("fills", options=("--at", "buffer_size=20000"))
    assert buffer_row(plan)["bytes"] == pytest.approx(20_000 * ELEMENT_BYTES, rel=0.1)
    assert plan["peak_bytes"] > 18_000 * ELEMENT_BYTES


def test_values_are_varied_and_others_read_off_the_line() -> None:
    options = ("--json", "--vary", "envs=1,9", "--at", "envs=33")
    words = [COMMAND, "plan", "--rehearse", LENGTH, *options, "--", *PROGRAM, "fills", "{envs}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    plan = json.loads(done.stdout)
    frames = next(r for r in plan["accounts"] if r["account"].endswith("frames"))
    assert frames["bytes"] == pytest.approx(33 * 4 * MIB, rel=0.1)
    assert "for each envs" in frames["formula"]


def test_a_search_is_rehearsed_at_its_corners_and_leaves_nothing_in_its_storage(
    tmp_path: Path,
) -> None:
    database = tmp_path / "search.db"
    words = [COMMAND, "plan", "--rehearse", "8s", "--corners", "--json", "--"]
    words += [sys.executable, str(PROGRAMS / "searched.py"), str(database)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    plan = json.loads(done.stdout)
    found = next(check for check in plan["checks"] if check["id"] == "search-range")
    assert "buffer_size=8000 of 500 to 8000" in found["message"]
    assert "net_arch=[512, 512]" in found["message"]
    assert "activation" not in found["message"]
    assert buffer_row(plan)["bytes"] == pytest.approx(8000 * 8000, rel=0.1)
    assert not database.exists()


def test_corners_of_a_program_that_searches_nothing_are_an_error() -> None:
    done = rehearsed("fills", length="3s", options=("--corners",))
    assert done.returncode == 1
    assert "no Optuna trial suggested a setting" in done.stderr


def test_a_limit_that_is_reached_in_the_rehearsal_does_not_fit() -> None:
    done = rehearsed("endless", length="60s", options=("--ram", "90MiB"))
    assert done.returncode == 3
    assert "does not fit" in done.stdout
    assert "limit-reached" in done.stdout


def test_iterations_are_counted() -> None:
    plan = document("fills", length="30 iterations")
    assert 25 <= int(plan["title"].split(": ")[1].split()[0]) <= 60


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("exits", "exit code 1"),
        ("asks", "standard input empty"),
    ],
)
def test_what_cannot_be_rehearsed_is_said(kind: str, said: str) -> None:
    done = rehearsed(kind, length="3s")
    assert done.returncode not in (0, 3)
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr.partition("last lines")[0]


def test_a_program_without_a_loop_is_planned_as_far_as_it_came() -> None:
    plan = document("never-loops", length="6s")
    found = next(check for check in plan["checks"] if check["id"] == "no-loop")
    assert found["severity"] == "warning"
    assert "no training loop was seen" in found["message"]
    assert 10 * MIB < plan["peak_bytes"] < 200 * MIB


def test_nothing_is_left_running() -> None:
    rehearsed("daemon")
    words = Path("/proc").glob("[0-9]*/cmdline")
    left = [path for path in words if _read(path) == b"sleep\x007531\x00"]
    assert left == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_program_that_does_not_listen_is_ended() -> None:
    done = rehearsed("deaf")
    assert done.returncode == 0, done.stderr
    assert "iterations rehearsed" in " ".join(done.stdout.split())


def test_a_bad_length_or_no_command_is_an_error() -> None:
    for words in (["--rehearse", "soon", "--", "true"], ["--rehearse", "5s"]):
        done = subprocess.run(
            [COMMAND, "plan", *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2 or "hint" in done.stderr
        assert "Traceback" not in done.stderr


def test_ctrl_c_ends_both_and_says_nothing_more() -> None:
    words = [COMMAND, "plan", "--rehearse", "60s", "--", *PROGRAM, "fills"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        time.sleep(4)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == b""


def test_the_same_in_python() -> None:
    found = ramledger.rehearse([*PROGRAM, "fills"], LENGTH)
    larger = found.at(buffer_size=40_000)
    grown = larger.ram.needed.expected - found.budget.ram.needed.expected
    assert grown == pytest.approx(38_000 * ELEMENT_BYTES, rel=0.1)
    with pytest.raises(ramledger.ConfigError, match="n_envs"):
        found.at(n_envs=3)


def test_the_folder_of_the_program_is_its_own(tmp_path: Path) -> None:
    script = tmp_path / "where.py"
    script.write_text("import os\nprint(os.getcwd())\nopen('written', 'w').close()\n")
    subprocess.run(
        [COMMAND, "plan", "--rehearse", "60s", "--", sys.executable, str(script)],
        cwd=tmp_path, capture_output=True, check=False, env=os.environ,
    )  # fmt: skip
    assert (tmp_path / "written").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["where.py", "written"]
