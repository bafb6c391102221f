"""The summary after a run: how it ended, the verdict, the peak, the growth, the phases.

Plain lines that can be pasted into an issue, few enough for one screen; `verbose` shows all. All of
it comes from events, so it can be printed from a recording on another computer as well.
"""

from collections.abc import Sequence

from rich.console import Console

from ramledger.diagnose.advice import Advice, advise, remedy_command
from ramledger.diagnose.copied_lists import copied_in_run
from ramledger.diagnose.finding import Diagnosis
from ramledger.diagnose.own_replay import with_replay_rows
from ramledger.events import ExpectationEvent
from ramledger.ledger import Entry, printable
from ramledger.report.account_words import meaning
from ramledger.report.growth_captions import growth_rows, stretch_text
from ramledger.report.plan_grade import graded
from ramledger.report.remedy_report import not_yet_applied, remedy_lines
from ramledger.report.terminal.diagnosis_text import print_verdict
from ramledger.report.terminal.growth_words import pressure_text
from ramledger.report.terminal.live_view import broken_expectation
from ramledger.report.terminal.run_details import print_details
from ramledger.report.terminal.sheet import Sheet
from ramledger.report.terminal.text_layout import short_command
from ramledger.run.ending import KernelKill, ending_of, kernel_kill
from ramledger.run.model import Run
from ramledger.run.training_end import END
from ramledger.units import MIB, format_bytes, format_delta, format_duration

_ACCOUNTS, _GROWING, _PHASES, _NOTES = 7, 4, 5, 3
_WORTH_BYTES = MIB  # smaller changes are not worth a row
_NEAR = 0.03  # of the peak
_SHORT_SECONDS = 5.0


def print_summary(
    run: Run,
    console: Console,
    diagnosis: Diagnosis | None = None,
    against: Run | None = None,
    *,
    verbose: bool = False,
) -> None:
    """What is worth knowing after a run, the verdict first.

    `against`: an earlier run, without the remedies of this one.
    """
    sheet = Sheet(console)
    _headline(sheet, run)
    kill = kernel_kill(run)
    if kill is not None:
        _killed(sheet, kill)
    elif _failed_at_once(run):
        return
    if diagnosis is not None:
        sheet.line()
        print_verdict(diagnosis, console, verbose=verbose)
    if verbose:
        print_details(sheet, run, diagnosis)
    else:
        _peak(sheet, run)
        _growth(sheet, diagnosis)
        _phases(sheet, run)
        _plan(sheet, run)
    _listed(sheet, "remedies", remedy_lines(run, against), verbose=True)
    notes = _notes(run)
    _listed(sheet, "notes", notes + _probe_lines(run) if verbose else notes, verbose=verbose)


def _failed_at_once(run: Run) -> bool:
    """A wrong argument or a syntax error: nobody asks for its memory."""
    has_failed = run.end is not None and bool(run.end.exit_code)
    is_short = run.now_seconds < _SHORT_SECONDS
    return has_failed and is_short and not run.iterations.of(run.main_pid)


# ---- how it ended ---------------------------------------------------------------------------


def _headline(sheet: Sheet, run: Run) -> None:
    command = short_command(run.command, max(20, min(60, sheet.width - 40)))
    sheet.paragraph(f"ramledger: {command} {ending_of(run).text}", "bold", indent="")
    if not run.peak_bytes:
        return
    facts = [f"peak {format_bytes(run.peak_bytes)}{_where(run.peak_where)}"]
    if run.limit is not None and run.limit.bytes:
        limit = f"{format_bytes(run.limit.bytes)} ({printable(run.limit.source)})"
        facts.append(f"{run.peak_bytes / run.limit.bytes:.0%} of the limit, {limit}")
    sheet.facts(facts)


def _where(place: tuple[int | None, str]) -> str:
    generation, phase = place
    if phase == END:
        return " after the training"
    parts = [f"in iteration {generation}"] if generation is not None else []
    parts += [f"({printable(phase)})"] if phase else []
    return "".join(f" {part}" for part in parts)


def _killed(sheet: Sheet, kill: KernelKill) -> None:
    sheet.title("the kernel killed it for memory")
    who = f"pid {kill.pid} ({short_command(kill.command, 50)})" if kill.pid else "a process"
    sheet.paragraph(f"{who} held {format_bytes(kill.resident_bytes)} when it was last seen")
    if kill.largest:
        held = ", ".join(f"{printable(name)} {format_bytes(size)}" for name, size in kill.largest)
        sheet.paragraph(f"its largest accounts: {held}")
    if kill.grew_last:
        account, grown, seconds = kill.grew_last
        how = f"{format_delta(grown)} in {format_duration(seconds)}"
        sheet.paragraph(f"{printable(account)} grew last: {how}")


# ---- peak, growth, phases -------------------------------------------------------------------


def _peak(sheet: Sheet, run: Run) -> None:
    """The largest accounts of the snapshot nearest to the peak, and what other processes had."""
    snapshots = run.main_snapshots
    if snapshots is None:
        return
    snapshot = snapshots.peak or snapshots.now
    statement = with_replay_rows(snapshot.statement)
    others = run.beside_at(snapshot.t)
    together = statement.rss_bytes + others
    name = f"iteration {snapshot.generation}, " if snapshot.generation is not None else ""
    sheet.title(f"memory at the largest snapshot: {name}{format_duration(snapshot.t)} into the run")
    rows = [_account(entry, together) for entry in statement.entries[:_ACCOUNTS]]
    rest = sum(entry.resident_bytes for entry in statement.entries[_ACCOUNTS:])
    count = len(statement.entries) - _ACCOUNTS
    if count > 0:
        rows.append((f"{count} smaller accounts", *_sizes(rest, together), ""))
    if statement.unexplained_bytes >= _NEAR * statement.rss_bytes:
        sizes = _sizes(statement.unexplained_bytes, together)
        rows.append(("unexplained", *sizes, meaning("unexplained")))
    if others >= _WORTH_BYTES:
        rows.append(("other processes of the run", *_sizes(others, together), ""))
    rows.append(("together", *_sizes(together, together), ""))
    sheet.table(("account", "resident", "share", "what it is"), rows, words=1)
    missing = run.peak_bytes - together
    if missing > _NEAR * run.peak_bytes:
        where = _where(run.peak_where) or f" at {format_duration(run.peak_at)}"
        sheet.paragraph(f"the peak{where} was {format_bytes(missing)} higher", "dim")
    _advice(sheet, not_yet_applied(advise(statement, copied_in_run(run)), run), run.command)


def _account(entry: Entry, together: int) -> tuple[str, str, str, str]:
    words = meaning(entry.account)
    if entry.fill is not None:
        words += f", {entry.fill:.0%} full"
    return (printable(entry.account), *_sizes(entry.resident_bytes, together), printable(words))


def _sizes(size: int, together: int) -> tuple[str, str]:
    return format_bytes(size), f"{size / together:.0%}" if together else ""


def _advice(sheet: Sheet, found: Sequence[Advice], command: str) -> None:
    """What would save most, in one line; all of it is in the report."""
    if not found:
        return
    first = found[0]
    text = f"could be saved: {format_bytes(first.saves_bytes)}: {first.title}"
    sheet.paragraph(text)
    if first.apply:
        sheet.paragraph(f"→ {remedy_command(first.apply, command)}", indent="    ")


def _growth(sheet: Sheet, diagnosis: Diagnosis | None) -> None:
    if diagnosis is None or diagnosis.growth_total is None:
        return
    heads, rows = growth_rows(diagnosis, _GROWING, shares=False)
    if abs(diagnosis.growth_total.growth_bytes) < _WORTH_BYTES:
        return
    sheet.title(f"growth {stretch_text(diagnosis)}")
    sheet.table(heads, rows)


def _phases(sheet: Sheet, run: Run) -> None:
    totals = run.iterations.phases(run.main_pid)[:_PHASES]
    if not totals:
        return
    sheet.title("phases")
    sheet.table(
        ("phase", "peak RSS", "an iteration", "growth", "time"),
        [
            (
                printable(t.name), format_bytes(t.peak_bytes),
                format_delta(round(t.growth_per_iteration)), format_delta(t.growth_bytes),
                format_duration(t.seconds),
            )
            for t in totals
        ],
    )  # fmt: skip


def _plan(sheet: Sheet, run: Run) -> None:
    rows = graded(run)
    if rows:
        peak = rows[-1]
        planned, measured = format_bytes(peak.planned_bytes), format_bytes(peak.measured_bytes)
        sheet.title(f"plan: {planned}, measured: {measured} ({peak.error_text}, {peak.verdict})")


def _listed(sheet: Sheet, title: str, lines: list[str], *, verbose: bool) -> None:
    shown = lines if verbose else lines[:_NOTES]
    if lines:
        sheet.title(title)
    for line in shown:
        sheet.paragraph(line)
    if len(lines) > len(shown):
        sheet.paragraph(f"{len(lines) - len(shown)} more: --verbose", "dim")


def _notes(run: Run) -> list[str]:
    lines = [f"expectation broken: {broken_expectation(event)}" for event in _broken(run)]
    lines += map(pressure_text, run.pressures)
    if run.failed_snapshots > 1:
        lines.append(f"{run.failed_snapshots:,} snapshots failed")
    lines += [printable(note) for note in run.notes]
    return list(dict.fromkeys(lines))


def _broken(run: Run) -> list[ExpectationEvent]:
    """The first and the last time for each class."""
    found: dict[str, list[ExpectationEvent]] = {}
    for event in run.expectations:
        found.setdefault(event.type, []).append(event)
    return [event for events in found.values() for event in (events[0], *events[1:][-1:])]


def _probe_lines(run: Run) -> list[str]:
    """What garbage collection and trimming gave back at the end: it nearly decides the cause."""
    probe = run.probe
    if probe is None:
        return []
    before, objects = probe.anon_bytes, probe.collected_objects
    collected, trimmed = probe.after_collect_bytes, probe.after_trim_bytes
    lines = []
    if before - collected >= _WORTH_BYTES:
        given = format_bytes(before - collected)
        lines.append(f"at the end gc.collect() freed {objects:,} objects and gave back {given}")
    if collected - trimmed >= _WORTH_BYTES:
        given = format_bytes(collected - trimmed)
        lines.append(
            f"at the end malloc_trim(0) gave back {given}, free memory that malloc was holding"
        )
    return lines
