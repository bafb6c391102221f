"""The `ramledger` command: finds the verb, and is the one place that turns errors into exit codes.

A verb is imported when it is called, so `ramledger --help` loads none of them.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO

from cyclopts import App, CycloptsError, UnknownCommandError

from ramledger.errors import RamledgerError
from ramledger.ledger import printable

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

EXAMPLES = """\
Examples:
  ramledger plan train.py --ram 32GiB      will it fit, before it starts
  ramledger run -- python train.py         record its memory, judge it
  ramledger explain 47068 --inside         where the RAM of that live process is
  ramledger diagnose train.ledger.jsonl    leak or not, and why
  ramledger report train.ledger.jsonl      one page to read and to send

Exit codes: 0 fine, 1 error, 2 usage, 3 problem found.
"""

EXPLAIN_EXAMPLES = """\
Examples:
  ramledger explain 47068
  ramledger explain 47068 --tree --top 40
  ramledger explain --match train.py --json
"""

PLAN_EXAMPLES = """\
Examples:
  ramledger plan train.py --ram 32GiB --obs 144x160x3:uint8
  ramledger plan config.toml --set n_envs=8 --fit --maximize buffer_size
  ramledger plan ppo.yml --env CartPole-v1 --json
"""

RUN_EXAMPLES = """\
Examples:
  ramledger run -- python train.py --seed 3
  ramledger run --phase evaluate --expect TradingEnv=2 -- python -m pkg.train
  ramledger run --limit 25GiB --on-limit checkpoint -- ./train.sh
  ramledger run --apply auto --against before.ledger.jsonl -- python train.py
"""

DIAGNOSE_EXAMPLES = """\
Examples:
  ramledger diagnose train.ledger.jsonl
  ramledger diagnose train.ledger.jsonl --since 10 --json
  ramledger diagnose fixed.ledger.jsonl --compare before.ledger.jsonl
  ramledger diagnose train.ledger.jsonl --format markdown > comment.md
"""

COMPLETION_EXAMPLES = """\
Examples:
  ramledger --install-completion
  ramledger --install-completion --shell zsh --yes
"""

QUICKSTART_EXAMPLES = """\
Examples:
  ramledger quickstart
  ramledger quickstart try-it --force
"""

CHECK_ENV_EXAMPLES = """\
Examples:
  ramledger check-env envs:make_env
  ramledger check-env ALE/Pong-v5 --resets 400 --steps 500
  ramledger check-env envs:TradingEnv --rebuild --json
"""

REPORT_EXAMPLES = """\
Examples:
  ramledger report train.ledger.jsonl
  ramledger report train.ledger.jsonl --open
  ramledger report before.ledger.jsonl fixed.ledger.jsonl -o fix.html
  ramledger report train.ledger.jsonl --terminal
"""

SERVE_EXAMPLES = """\
Examples:
  ramledger serve train.ledger.jsonl
  ramledger serve train.ledger.jsonl --port 8123
"""

WATCH_EXAMPLES = """\
Examples:
  ramledger watch 47068 47069
  ramledger watch --match optimize_unified --tree
  ramledger watch --match train.py --once --target rss=15GiB,threads=30
"""


def build_app() -> App:
    """The command line as cyclopts sees it; verbs are import paths, not yet imported."""
    app = App(
        name="ramledger",
        help="Where the RAM of a reinforcement-learning run goes, and what to do about it.",
        help_epilogue=EXAMPLES,
        help_format="plaintext",
        version=_version,
        result_action="return_int_as_exit_code_else_zero",
        # main() prints every error itself, one line each
        print_error=False,
        exit_on_error=False,
        suppress_keyboard_interrupt=False,
    )
    app.command(
        "ramledger.cli.check_env:check",
        name="check-env",
        help="Is it my environment that leaks? Resets one environment repeatedly.",
        help_epilogue=CHECK_ENV_EXAMPLES,
    )
    app.command(
        "ramledger.cli.diagnose:diagnose",
        name="diagnose",
        help="Leak or not: where, what, how much, since when, why, and what to do.",
        help_epilogue=DIAGNOSE_EXAMPLES,
    )
    app.command(
        "ramledger.cli.explain:explain",
        name="explain",
        help="Show where the RAM of live processes is, right now; they need no change.",
        help_epilogue=EXPLAIN_EXAMPLES,
    )
    app.command(
        "ramledger.cli.plan:plan",
        name="plan",
        help="Will it fit, what is wrong with it, what to change: before anything is allocated.",
        help_epilogue=PLAN_EXAMPLES,
    )
    app.command(
        "ramledger.cli.quickstart:quickstart",
        name="quickstart",
        help="Write a small training with a leak, and a config that does not fit, to try it out.",
        help_epilogue=QUICKSTART_EXAMPLES,
    )
    app.command(
        "ramledger.cli.replay:app",
        name="replay",
        help="Checkpoints of replay buffers: inspect, verify, export.",
    )
    app.command(
        "ramledger.cli.report:report",
        name="report",
        help="One HTML file to read and to send: verdict, memory over time, owners, findings.",
        help_epilogue=REPORT_EXAMPLES,
    )
    app.command(
        "ramledger.cli.serve:serve",
        name="serve",
        help="The page of a run on this machine, live while the training goes on.",
        help_epilogue=SERVE_EXAMPLES,
    )
    app.command(
        "ramledger.cli.watch:watch",
        name="watch",
        help="Watch live processes side by side: growth, threads, time left, targets.",
        help_epilogue=WATCH_EXAMPLES,
    )
    app.command(
        "ramledger.cli.run:run",
        name="run",
        help="Run a command and record its memory; exit code, signals and output are unchanged.",
        help_epilogue=RUN_EXAMPLES,
    )
    app.command(
        "ramledger.cli.train:app",
        name="train",
        help="Train a population of agents, bounded in memory, and resume it where it stopped.",
    )
    app.command(
        "ramledger.cli.completion:install",
        name="--install-completion",
        help="Complete verbs, options and files in bash, zsh or fish; asks before it writes.",
        help_epilogue=COMPLETION_EXAMPLES,
    )
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    _print_what_cannot_be_encoded()
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return exit_code_of(lambda: _run(tokens))
    finally:
        _settle(sys.stderr)


def exit_code_of(action: Callable[[], int]) -> int:
    """Call `action`; an expected failure becomes a line on stderr and an exit code."""
    try:
        return action()
    except UnknownCommandError as error:
        _print_verbs(error)
        return EXIT_USAGE
    except CycloptsError as error:
        verb = error.command_chain or ()
        print_error(str(error), hint=" ".join(("ramledger", *verb, "--help")))
        return EXIT_USAGE
    except RamledgerError as error:
        print_error(error.message, hint=error.hint)
        return EXIT_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _abandon(sys.stdout)
        return EXIT_ERROR
    except OSError as error:
        _abandon(sys.stdout)
        print_error(str(error))
        return EXIT_ERROR
    except MemoryError:
        print_error("out of memory", hint="raise `ulimit -v`, or free memory on this machine")
        return EXIT_ERROR


def print_error(message: str, *, hint: str = "") -> None:
    """Say what went wrong in one line on stderr, and what to do next in a second one."""
    # stderr may be closed or full as well, and then there is nobody left to tell
    with suppress(OSError):
        print(f"ramledger: {_one_line(message)}", file=sys.stderr)
        if hint:
            print(f"  hint: {_one_line(hint)}", file=sys.stderr)


def _print_verbs(error: UnknownCommandError) -> None:
    """What there is instead of a verb that there is not: the nearest one, then all of them."""
    from difflib import get_close_matches

    chain = " ".join(("ramledger", *(error.command_chain or ())))
    asked = (error.unused_tokens or [""])[0]
    known = [name for name in error.app or () if not name.startswith("-")] if error.app else []
    near = get_close_matches(asked, known, n=1)
    print_error(f"there is no `{chain} {asked}`" + (f": did you mean {near[0]}?" if near else ""))
    width = max((len(name) for name in known), default=0)
    with suppress(OSError):
        for name in sorted(known):
            help_text = (error.app[name].help if error.app else "").partition("\n")[0]
            print(f"  {name:<{width}}  {help_text}", file=sys.stderr)
        print(f"  hint: {chain} --help", file=sys.stderr)


def _run(tokens: list[str]) -> int:
    code = int(build_app()(tokens))
    if sys.stdout is not None:
        # a full disk or a closed pipe has to show here, while it can still be reported
        sys.stdout.flush()
    return code


def _version() -> str:
    from ramledger import __version__

    return __version__


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _print_what_cannot_be_encoded() -> None:
    """Command lines and file names need not be UTF-8: print them escaped, do not fail on them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _settle(stream: TextIO | None) -> None:
    """What could not be said is not said again at exit: Python would end with code 120 for it."""
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        _abandon(stream)


def _abandon(stream: TextIO | None) -> None:
    """Keep the interpreter's own flush at exit from failing on the same broken stream."""
    if isinstance(stream, TextIOWrapper):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
