"""`--apply malloc`: variables by what an earlier run shows, and trims at the ends of phases."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.recorded_programs import COMMAND

# memory of threads that take turns: each leaves what it freed in an arena of its own
THREADS = """
import threading, time
import numpy as np
turn, kept = threading.Semaphore(2), []
barrier = threading.Barrier(48)

def work(number):
    for _ in range(3):
        with turn:
            rows = [np.ones(2_000 + 97 * k % 9_000) for k in range(400)]
            kept.append(rows[200])
            del rows
        barrier.wait()

threads = [threading.Thread(target=work, args=(k,)) for k in range(48)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""

PHASES = """
import json, time
import numpy as np, ramledger
from ramledger.remedies import malloc_trim
malloc_trim._FIRST_REST_SECONDS = 0.0
from ramledger.agent.observer import AT_ENDS
(trim,) = AT_ENDS
trim.__self__._not_before = 0.0

ledger = ramledger.record()
for iteration in range(4):
    with ledger.phase("collect"):
        time.sleep(0.05)
    with ledger.phase("train"):
        rows = [np.ones(9000) for _ in range(3000)]
        kept = rows[-1]
        del rows
print("RESULT", json.dumps([trim.__self__.given_bytes, trim.__self__._rests]))
"""

OTHER_MALLOC = """
#include <stddef.h>
void *__libc_malloc(size_t); void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t); void *__libc_memalign(size_t, size_t);
void __libc_free(void *);
void *malloc(size_t n) { return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
void free(void *p) { __libc_free(p); }
void *aligned_alloc(size_t a, size_t n) { return __libc_memalign(a, n); }
"""


def run(folder: Path, program: str, *words: str, **environ: str) -> tuple[dict[str, Any], str]:
    script = folder / "train.py"
    script.write_text(program)
    command = [COMMAND, "run", "--json", "--force", *words, "--", sys.executable, str(script)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=200,
        env={**os.environ, **environ},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_the_earlier_run_chooses(tmp_path: Path) -> None:
    before, after = str(tmp_path / "before.ledger.jsonl"), str(tmp_path / "after.ledger.jsonl")
    run(tmp_path, THREADS, "--out", before)
    document, _ = run(tmp_path, THREADS, "--apply", "malloc", "--against", before, "--out", after)
    (said,) = [one["text"] for one in document["remedies"]["applied"] if "because" in one["text"]]
    assert said.startswith("MALLOC_ARENA_MAX=2, because ")
    assert " MiB were free in " in said
    # 48 threads had 16 arenas on two cores, and have two
    compared = document["remedies"]["against"]
    assert compared["saved_bytes"] > 0.25 * compared["peak_bytes"]


def test_trims_come_where_a_phase_frees(tmp_path: Path) -> None:
    out = str(tmp_path / "run.ledger.jsonl")
    document, said = run(tmp_path, PHASES, "--apply", "malloc", "--out", out)
    line = next(line for line in said.splitlines() if line.startswith("RESULT"))
    given, rests = json.loads(line.removeprefix("RESULT "))
    assert given["train"] > 100 << 20
    assert "collect" not in given
    assert set(rests) >= {"train", "collect"}
    assert any("most at the end of train" in one["text"] for one in document["remedies"]["applied"])


def test_another_malloc_is_left_alone(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, library = tmp_path / "other.c", tmp_path / "libjemalloc.so.2"
    source.write_text(OTHER_MALLOC)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    out = str(tmp_path / "run.ledger.jsonl")
    document, _ = run(
        tmp_path, "print(1)", "--apply", "malloc", "--out", out, LD_PRELOAD=str(library)
    )
    assert document["remedies"]["applied"] == []
    assert [one["text"] for one in document["remedies"]["left"]] == [
        "malloc is jemalloc here: glibc's settings and trims do nothing"
    ]
