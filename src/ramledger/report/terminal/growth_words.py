"""Growth in words, the same in the live view, in a log and in the summary of a run."""

from ramledger.diagnose.code_lines import text_of
from ramledger.diagnose.finding import Finding, Verdict
from ramledger.diagnose.leak_words import per_iteration
from ramledger.diagnose.live_judge import Judgement, owner_of
from ramledger.events import PressureEvent
from ramledger.ledger import Limit, printable
from ramledger.run.model import Run
from ramledger.run.time_left import TimeLeft
from ramledger.units import format_bytes, format_duration

HORIZON_SECONDS = 2 * 86400.0  # what is farther away is not worth a word
_DONE_AT_LIMIT = {"stop": "stopping early: ", "checkpoint": "saving a checkpoint: "}
_MORE = 1.02  # than now
_MARGIN = 1.5  # of the time to the end: a limit that is nearer may be reached


def growing_text(leak: Finding) -> str:
    """`growing 3.1 MiB an iteration: Trainer.envs`."""
    owner = owner_of(leak)
    text = f"growing {rate_text(leak)}"
    return printable(f"{text}: {owner}" if owner else text)


def rate_text(leak: Finding) -> str:
    return f"{format_bytes(leak.bytes_per_generation)} {per_iteration(leak.per)}"


def leak_warning(leak: Finding) -> str:
    """The verdict as far as it is certain, with the line of code, where it is known."""
    text = leak.summary
    line = text_of(leak.code.best)
    return printable(f"{text} · {line}" if line else text)


def outlook_text(run: Run, now: Judgement) -> str:
    """Where this run ends: the limit, where it reaches it before its end, or its level there."""
    left, outlook = now.run_left, now.diagnosis.outlook if now.diagnosis is not None else None
    if left is None:
        return ""
    seconds = left.seconds_left
    if seconds is None:
        return _settles(run, left.settles_at_bytes)
    remaining = seconds_to_end(run)
    if remaining is None:
        return time_left_text(left) if seconds <= HORIZON_SECONDS else ""
    if seconds <= _MARGIN * remaining:
        return time_left_text(left)
    is_judged = now.diagnosis is not None and now.diagnosis.verdict is not Verdict.UNDECIDED
    if outlook is None or outlook.generation is None or not is_judged:
        return ""
    return f"about {format_bytes(outlook.peak_bytes)} at its end"


def _settles(run: Run, end_bytes: int | None) -> str:
    """Where it levels off, pages of files included; nothing where it is there already."""
    if end_bytes is None or not len(run.tree):
        return ""
    end = round(end_bytes + run.tree.last - run.own.last)
    return f"levels off near {format_bytes(end)}" if end > _MORE * run.tree.last else ""


def seconds_to_end(run: Run) -> float | None:
    """Until the last iteration that is planned, at the pace so far."""
    rows, last = run.iterations.of(run.main_pid), run.planned.last_iteration
    if last is None or len(rows) < 2 or rows[-1].generation <= rows[0].generation:
        return None
    each = (rows[-1].t - rows[0].t) / (rows[-1].generation - rows[0].generation)
    return each * max(0, last - rows[-1].generation)


def time_left_text(found: TimeLeft) -> str:
    """Until the limit, with its interval; or why it is not in sight."""
    seconds = found.seconds_left
    if seconds is None or seconds > HORIZON_SECONDS:
        return printable(found.reason)  # it names accounts
    if not seconds:
        return "the limit is reached" if found.high_seconds == 0 else "the limit is near"
    text = f"limit in {format_duration(seconds)}"
    low, high = found.low_seconds, found.high_seconds
    if low is not None and high is not None:
        return f"{text} ({format_duration(low)} to {format_duration(high)})"
    return f"{text} ({format_duration(low)} at least)" if low is not None else text


def pressure_text(event: PressureEvent) -> str:
    """`stopping early: 190.8 MiB of 300.0 MiB used, the limit is about to be reached`."""
    used, limit = format_bytes(event.usage_bytes), format_bytes(event.limit_bytes)
    done = _DONE_AT_LIMIT.get(event.action, "")
    return f"{done}{used} of {limit} used, the limit is about to be reached"


def machine_text(found: TimeLeft, limit: Limit) -> str:
    """`machine full in 46 s: other programs grow`."""
    where = "machine" if limit.source == "host RAM" else printable(limit.source)
    if not found.seconds_left:
        return f"{where} full: other programs grow"
    return f"{where} full in {format_duration(found.seconds_left)}: other programs grow"
