"""Growth in words, the same in the live view, in a log and in the summary of a run."""

from ramledger.diagnose.finding import Finding
from ramledger.diagnose.live_judge import owner_of
from ramledger.ledger import Limit, printable
from ramledger.run.time_left import TimeLeft
from ramledger.units import format_bytes, format_duration

HORIZON_SECONDS = 30 * 86400.0  # what is farther away is not worth a word


def growing_text(leak: Finding) -> str:
    """`growing 3.1 MiB an iteration: Trainer.envs`."""
    owner = owner_of(leak)
    text = f"growing {rate_text(leak)}"
    return printable(f"{text}: {owner}" if owner else text)


def rate_text(leak: Finding) -> str:
    per = "an iteration" if leak.per == "generation" else f"a {leak.per}"
    return f"{format_bytes(leak.bytes_per_generation)} {per}"


def leak_warning(leak: Finding) -> str:
    """The same with its beginning and the line of code that is behind it, where it is known."""
    text = f"leak: {growing_text(leak)}"
    if leak.onset_generation is not None:
        text += f", since iteration {leak.onset_generation}"
    lines = leak.code.evidence()
    return printable(f"{text}, {lines[0]}" if lines else text)


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


def machine_text(found: TimeLeft, limit: Limit) -> str:
    """`machine full in 46 s: other programs grow`."""
    where = "machine" if limit.source == "host RAM" else printable(limit.source)
    if not found.seconds_left:
        return f"{where} full: other programs grow"
    return f"{where} full in {format_duration(found.seconds_left)}: other programs grow"
