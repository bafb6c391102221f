"""Records the corpus again: every labeled program through `ramledger run`, bare and marked.

python -m tests.corpus.record [NAME...] [--jobs N] [--keep FOLDER]       paced programs
python -m tests.corpus.record --loaded [NAME...]                         with both cores busy
python -m tests.corpus.record --as NAME [--in FOLDER] -- COMMAND...      any other training
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from tests.corpus.compact import compact
from tests.corpus.labels import HERE, LOADED, RECORDINGS, TRAININGS, modes, program, programs
from tests.corpus.paced import neighbors, paced, phase_seconds

_COMMAND = Path(sys.executable).with_name("ramledger")
_SECONDS = 900
_JOBS = 6
# recorded once more with busy cores, one of most kinds
UNDER_LOAD = (
    "leaky_novelty_archive", "leaky_parent_chain", "leaky_running_loss", "leaky_native_pages",
    "leaky_segments", "leaky_collector_off", "leaky_holes", "leaky_small_views",
    "leaky_late_frames", "leaky_growing_worker", "healthy_deque_replay", "healthy_half_full_ring",
    "healthy_memmap_dataset", "healthy_larger_population", "healthy_jitter",
    "healthy_cycles_collected",
)  # fmt: skip
# /dev/shm is the whole machine's: of the programs that use it, one runs at a time
_USES_SHM = re.compile(r"/dev/shm|shared_memory|share_memory|torch.multiprocessing")
_ALONE = threading.Lock()
# of several programs at once, the threads of each would wait for those of the others
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = given[given.index("--") + 1 :] if "--" in given else []
    options = _parser().parse_args(given[: given.index("--")] if "--" in given else given)
    with ExitStack() as stack:
        raw = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        raw.mkdir(parents=True, exist_ok=True)
        if command:
            run(command, options.folder, raw / f"{options.name}-bare.jsonl")
            print(_kept(raw / f"{options.name}-bare.jsonl"))
            return 0
        if options.loaded:
            stack.enter_context(busy_cores())
        return _record_all(options, raw)


def _record_all(options: argparse.Namespace, raw: Path) -> int:
    failed = []
    names = options.names or (UNDER_LOAD if options.loaded else programs())
    wanted = [(name, mode) for name in names for mode in modes(name)]
    suffix = LOADED if options.loaded else ""
    if options.missing:
        wanted = [(n, m) for n, m in wanted if not _place_of(f"{n}{suffix}-{m}").exists()]
    with ThreadPoolExecutor(options.jobs) as pool:
        done = [
            (name, mode, pool.submit(record, name, mode, raw / f"{name}{suffix}-{mode}.jsonl"))
            for name, mode in wanted
        ]
        for name, mode, future in done:
            try:
                print(_kept(future.result()), flush=True)
            except (OSError, subprocess.SubprocessError, ValueError) as error:
                failed.append(name)
                print(f"FAILED {name} {mode}: {error}", flush=True)
    return 1 if failed else 0


def record(name: str, mode: str, out: Path) -> Path:
    """Run one program, paced, under the ledger."""
    source = program(name)
    if source.parent == TRAININGS:
        return run([sys.executable, source.name], source.parent, out)
    text = source.read_text(encoding="utf-8")
    with (
        _ALONE if _USES_SHM.search(text) else nullcontext(),
        tempfile.TemporaryDirectory(prefix="corpus-") as scratch,
    ):
        folder = Path(scratch)
        for neighbor in neighbors(source):
            shutil.copy(neighbor, folder)
        (folder / source.name).write_text(paced(text, mode), encoding="utf-8")
        library = folder / "site-packages"  # what is there is not the user's
        library.mkdir()
        shutil.copy(HERE / "pace.py", library)
        environment = dict(_ONE_THREAD)
        environment["CORPUS_PHASE_SECONDS"] = f"{phase_seconds(text):.3f}"
        environment["PYTHONPATH"] = str(library)
        return run([sys.executable, source.name], folder, out, environment)


def run(
    command: Sequence[str], folder: Path, out: Path, environment: dict[str, str] | None = None
) -> Path:
    """Any command under the ledger."""
    done = subprocess.run(
        [_COMMAND, "run", "--quiet", "--force", "--out", out.absolute(), "--", *command],
        cwd=folder,
        env=os.environ | (environment or {}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise ValueError(f"ended with {done.returncode}: {done.stderr[-600:]}")
    return out


@contextmanager
def busy_cores() -> Iterator[None]:
    """Every core has something else to do."""
    burners = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 2)
    ]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def _kept(raw: Path) -> str:
    return f"{raw.stem:44} {compact(raw, _place_of(raw.stem))}"


def _place_of(stem: str) -> Path:
    return RECORDINGS / f"{stem}.jsonl.xz"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=_JOBS)
    parser.add_argument("--keep", type=Path, help="where to keep recordings as they were written")
    parser.add_argument("--loaded", action="store_true", help="with every core busy")
    parser.add_argument("--missing", action="store_true", help="only what has no recording")
    parser.add_argument("--as", dest="name", help="the name of a training that is no program here")
    parser.add_argument("--in", dest="folder", type=Path, default=Path(), help="its folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
