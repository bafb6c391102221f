"""A user's process with 53 threads and 20 GB, scaled down: explain must name the real causes.

The report blamed thread stacks, a CPU caching allocator, target networks of PPO and CUDA overhead.
None of that is so; what the process does hold is known here from the program and the kernel.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.held_program import HeldProgram
from tests.support.kernel_truth import resident_bytes, smaps, stack_mappings
from tests.support.slow_notice import without_slow_notice

pytestmark = pytest.mark.xdist_group("report-000")

COMMAND = Path(sys.executable).with_name("ramledger")
MIB = 1 << 20


@dataclass(frozen=True)
class Answer:
    """What the command said, and what is so."""

    text: str
    document: dict[str, Any]
    truth: dict[str, Any]
    threads: int
    touched_stack_bytes: int
    given_back_bytes: int

    def resident(self, account: str) -> int:
        return sum(
            entry["resident_bytes"]
            for entry in self.document["accounts"]
            if f"{entry['account']}/".startswith(f"{account}/")
        )

    def advice(self, title: str) -> dict[str, Any]:
        return next(item for item in self.document["advice"] if item["title"] == title)


@pytest.fixture(scope="module")
def answer() -> Iterator[Answer]:
    with HeldProgram("many_threads_ppo", "bare") as program:
        text = explain(program.pid)
        document = json.loads(explain(program.pid, "--json"))
        stacks = stack_mappings(program.pid, smaps(program.pid))
        yield Answer(
            text,
            document,
            program.truth,
            threads=len(os.listdir(f"/proc/{program.pid}/task")),
            touched_stack_bytes=sum(
                resident_bytes(program.pid, stack["start"], stack["stop"]) for stack in stacks
            ),
            given_back_bytes=program.say("trim")["given_back_bytes"],
        )


def explain(pid: int, *options: str) -> str:
    done = subprocess.run(
        [COMMAND, "explain", str(pid), *options],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
    )
    assert (done.returncode, without_slow_notice(done.stderr)) == (0, "")
    return done.stdout


def test_the_books_balance(answer: Answer) -> None:
    document = answer.document
    booked = sum(entry["resident_bytes"] for entry in document["accounts"])
    assert booked + document["unexplained_bytes"] == document["rss_bytes"]
    assert document["named_fraction"] > 0.95


def test_the_first_cause_is_what_glibc_keeps(answer: Answer) -> None:
    first = answer.document["advice"][0]
    assert first["title"] == "give freed memory back"
    assert first["saves_bytes"] == pytest.approx(answer.given_back_bytes, rel=0.2)
    assert first["saves_bytes"] > 50 * MIB
    assert "malloc_trim(0)" in first["do"][0]
    assert f"{answer.threads} threads made 1" in first["why"]  # 16 arenas on two cores
    assert any("MALLOC_ARENA_MAX=2 and compare" in step for step in first["do"])


def test_the_second_cause_is_histories_in_float64(answer: Answer) -> None:
    found = answer.advice("float32 instead of float64")
    assert found["saves_bytes"] == pytest.approx(answer.truth["history_bytes"] / 2, rel=0.01)
    assert "Trainer.state_history" in found["why"]


def test_the_belief_about_stacks_is_answered(answer: Answer) -> None:
    assert answer.threads > 52
    line = next(line for line in answer.text.splitlines() if "thread stacks" in line)
    sizes = re.search(r"(\d+) thread stacks reserve (\d+)\.\d MiB .* hold (\d+)\.\d KiB", line)
    assert sizes is not None, line
    count, reserved_mib, touched_kib = map(int, sizes.groups())
    assert abs(count - answer.threads) <= 2
    assert reserved_mib > 400
    assert touched_kib * 1024 == pytest.approx(answer.touched_stack_bytes, rel=0.1)
    assert "fewer threads would save at most that" in line


def test_networks_are_four_times_their_parameters_and_small(answer: Answer) -> None:
    state = sum(map(answer.resident, ("networks", "gradients", "optimizer")))
    assert state == pytest.approx(4 * answer.truth["parameters_bytes"], rel=0.1)
    assert answer.resident("optimizer") == pytest.approx(
        2 * answer.truth["parameters_bytes"], rel=0.1
    )


def test_every_saving_is_within_what_the_process_has(answer: Answer) -> None:
    savings = [item["saves_bytes"] for item in answer.document["advice"]]
    assert savings == sorted(savings, reverse=True)
    assert sum(savings) < answer.document["rss_bytes"] / 2


@pytest.mark.parametrize(
    "belief", [r"cach(e|ing)", r"target", r"cuda", r"rocm|\bhip\b", r"\bGB\b", r"overhead"]
)
def test_no_false_belief_is_repeated(answer: Answer, belief: str) -> None:
    said = answer.text.partition("why, and what to do")[2]
    assert "stacks" in said
    assert not re.search(belief, said, re.I)
    accounts = " ".join(entry["account"] for entry in answer.document["accounts"])
    assert not re.search(belief, accounts, re.I)


def test_nobody_is_told_to_use_fewer_threads(answer: Answer) -> None:
    steps = [step for item in answer.document["advice"] for step in item["do"]]
    assert not any(re.search(r"thread_num|num_threads|OMP_NUM", step) for step in steps)
