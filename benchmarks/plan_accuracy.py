"""How well `ramledger plan` predicts: every job of tests/data/plan_jobs.json, run and graded.

    python -m benchmarks.plan_accuracy [--table later] [NAME...]

Prints the tables of docs/accuracy-plan.md. Memory does not depend on how busy the machine is.
"""

import argparse
import sys
from collections.abc import Sequence

from ramledger.units import MIB
from tests.support.planned_jobs import Outcome, jobs, measure

TABLES = ("seen", "unseen", "later")
# what docs/accuracy-plan.md promises of jobs that nobody had seen
MEAN_ERROR, WORST_UNDER, LEAST_INSIDE = 0.05, -0.10, 0.90


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--table", choices=TABLES, action="append")
    options = parser.parse_args(arguments)
    is_good = True
    for table in options.table or TABLES:
        print(f"\n{table}\n\n" + "\n".join(heads()))
        outcomes = []
        for name, job in jobs(table).items():
            if not options.names or name in options.names:
                outcomes.append(measure(name, job))
                print(row(outcomes[-1]), flush=True)
        if outcomes:
            print("\n" + summary(outcomes))
            is_good &= table == "seen" or keeps_promises(outcomes)
    return 0 if is_good else 1


def heads() -> list[str]:
    return [
        "| job | measured | planned | error | low to high | inside | workers measured | planned |",
        "|---|--:|--:|--:|--:|---|--:|--:|",
    ]


def row(outcome: Outcome) -> str:
    """One job, in MiB."""
    peak, workers = outcome.peak, outcome.workers
    cells = [
        outcome.name,
        mib(outcome.measured["peak_bytes"]),
        mib(peak.expected),
        f"{outcome.error:+.1%}",
        f"{mib(peak.low)} to {mib(peak.high)}",
        "yes" if outcome.is_inside else "no",
        mib(outcome.measured["workers_bytes"]) if workers.expected else "",
        mib(workers.expected) if workers.expected else "",
    ]
    return f"| {' | '.join(cells)} |"


def mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:.0f}"


def mean_error(outcomes: Sequence[Outcome]) -> float:
    return sum(abs(outcome.error) for outcome in outcomes) / len(outcomes)


def summary(outcomes: Sequence[Outcome]) -> str:
    inside = sum(outcome.is_inside for outcome in outcomes)
    exact = sum(o.parameter_bytes == o.measured["parameter_bytes"] for o in outcomes)
    errors = [outcome.error for outcome in outcomes]
    return (
        f"{len(outcomes)} jobs: mean error {mean_error(outcomes):.1%}, "
        f"most below {min(0.0, *errors):+.1%}, most above {max(0.0, *errors):+.1%}, "
        f"inside low to high {inside}, parameters exact {exact}"
    )


def keeps_promises(outcomes: Sequence[Outcome]) -> bool:
    inside = sum(outcome.is_inside for outcome in outcomes) / len(outcomes)
    worst = min(outcome.error for outcome in outcomes)
    return mean_error(outcomes) < MEAN_ERROR and worst > WORST_UNDER and inside >= LEAST_INSIDE


if __name__ == "__main__":
    sys.exit(main())
