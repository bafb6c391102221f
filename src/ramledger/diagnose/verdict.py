"""Leak or not, read off the growth table: what rises in a line to the end, and has no capacity.

The process, its children and /dev/shm are judged apart; what is no leak is named, not passed over.
"""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from ramledger.diagnose import thresholds
from ramledger.diagnose.causes import explain_leak
from ramledger.diagnose.cluster_verdicts import by_worker, together
from ramledger.diagnose.code_lines import (
    code_lines,
    function_of,
    lines_while_growing,
    stored_lines,
)
from ramledger.diagnose.confidence import confidence_in
from ramledger.diagnose.copied_lists import copied_in_run
from ramledger.diagnose.finding import Cause, Diagnosis, Explanation, Finding, Kind, Verdict
from ramledger.diagnose.growth_lines import (
    growth_lines,
    growth_span,
    growth_total,
    outside_growth,
)
from ramledger.diagnose.growth_places import (
    Where,
    adding_phase,
    leaking_phase,
    outside_phase,
    phase_of_lines,
)
from ramledger.diagnose.growth_table import (
    GrowthTable,
    growth_of,
    growth_table,
    leak_inside,
    onset_generation,
    separate_leaks,
)
from ramledger.diagnose.healthy_growth import healthy_findings, waste
from ramledger.diagnose.known_versions import known_leaks
from ramledger.diagnose.leak_words import leak_sentence, per_iteration
from ramledger.diagnose.line_changes import changed_line
from ramledger.diagnose.outlook import Seen, outlook
from ramledger.diagnose.outside_leaks import cannot_be_looked_into, leak_in_shm, leak_in_workers
from ramledger.diagnose.responsibility import responsible_for
from ramledger.ledger import Limit
from ramledger.run.child_timelines import child_timelines
from ramledger.run.ending import ending_of
from ramledger.run.model import Run
from ramledger.run.shapes import Fit
from ramledger.run.starting_workers import bytes_to_come
from ramledger.run.timeline import Events, Timeline, build_timeline
from ramledger.units import format_bytes

_OF_THE_LEVEL = (Kind.WARM_UP, Kind.LEVEL_SHIFT, Kind.SAWTOOTH)  # a leak's own growth looks so


def diagnose(run: Run, since: int | None = None) -> Diagnosis:
    """How a run ended, and the verdict on it from generation `since` on."""
    workers = by_worker(run)
    if workers:
        found = together(run, [(worker, _judged(own, since)) for worker, own in workers])
    else:
        levels = {instant.t: instant.level_bytes for instant in run.instants}
        others = run.instants[-1].sample.other_processes if run.instants else None
        to_come = bytes_to_come(
            run.processes, run.main_pid, others, run.now_seconds,
            has_begun=bool(run.iterations.of(run.main_pid)),
        )  # fmt: skip
        seen = Seen(levels, run.peak_bytes, to_come)
        found = _judged(run, since, run.planned.last_iteration, run.limit, seen)
        found = replace(found, findings=(*found.findings, *map(waste, copied_in_run(run))))
    asked = {event.name for event in run.remedies}
    return replace(
        found,
        findings=tuple(replace(f, apply="") if f.apply in asked else f for f in found.findings),
        notes=(*run.damage, *found.notes),
        ended=ending_of(run),
        command=shlex.join(run.header.command),
    )


def _judged(
    events: Events,
    since: int | None,
    planned: int | None = None,
    limit: Limit | None = None,
    seen: Seen | None = None,
) -> Diagnosis:
    """The verdict on one process and its children."""
    timeline = build_timeline(events)
    if since is not None:
        timeline.points = [p for p in timeline.points if p.generation >= since]
        timeline.snapshots = [s for s in timeline.snapshots if (s.generation or 0) >= since]
    count = len(timeline.points)
    if count < thresholds.FEWEST_POINTS:
        more = thresholds.FEWEST_POINTS - count
        reason = f"only {count} {_unit(timeline)}s were recorded; run at least {more} more"
        found = _diagnosis(timeline, Verdict.UNDECIDED, reason, [])
    if count < thresholds.FORECAST_POINTS:
        return found
    table = growth_table(timeline, child_timelines(events, timeline))
    if count >= thresholds.FEWEST_POINTS:
        found = _verdict(table)
    by_few = _by_few_generations(timeline)
    if by_few is not timeline:
        table = growth_table(by_few, child_timelines(events, by_few))
    if not by_few.by_generation:
        planned = None
    return replace(
        found,
        growth=growth_lines(table, planned),
        growth_total=growth_total(table, planned),
        growth_span=growth_span(table),
        outside=outside_growth(table, planned),
        outlook=outlook(table, planned, limit, seen, leaks=found.verdict is Verdict.LEAK),
    )


def forecast_table(events: Events) -> GrowthTable | None:
    """The table that a forecast is read off: by generations, even if they are few."""
    timeline = _by_few_generations(build_timeline(events))
    if len(timeline.points) < thresholds.FORECAST_POINTS:
        return None
    return growth_table(timeline, child_timelines(events, timeline))


def _by_few_generations(timeline: Timeline) -> Timeline:
    """By the generations that are too few for a verdict, if they are enough for a forecast."""
    few = timeline.few_generations
    if len(few) < thresholds.FORECAST_POINTS:
        return timeline
    return replace(timeline, points=few, by_generation=True)


def _verdict(table: GrowthTable) -> Diagnosis:
    timeline, points = table.timeline, table.timeline.points
    findings = healthy_findings(table)
    leaks, doubt = _leaks(table)
    seconds = points[-1].t - points[0].t
    is_short = not timeline.by_generation and seconds < thresholds.LONG_ENOUGH_SECONDS
    if is_short and (leaks or table.is_rising):
        reason = (
            f"no loop was seen in {seconds:.0f} s, which is too short to decide; run at least "
            f"{thresholds.LONG_ENOUGH_SECONDS:.0f} s, or mark phases"
        )
        return _diagnosis(timeline, Verdict.UNDECIDED, reason, findings)
    if leaks:
        findings = [finding for finding in findings if finding.kind not in _OF_THE_LEVEL]
        return _diagnosis(timeline, Verdict.LEAK, leaks[0].summary, [*leaks, *findings])
    if doubt:
        return _diagnosis(timeline, Verdict.UNDECIDED, doubt, findings)
    reason = findings[0].summary if findings else "memory is flat after warm-up"
    return _diagnosis(timeline, Verdict.HEALTHY, reason, findings)


def _diagnosis(
    timeline: Timeline, verdict: Verdict, reason: str, findings: Sequence[Finding]
) -> Diagnosis:
    return Diagnosis(
        verdict,
        reason,
        len(timeline.points) if timeline.by_generation else 0,
        tuple(replace(one, confidence=confidence_in(one)) for one in findings),
        facts={
            "unit": _unit(timeline),
            "points": len(timeline.points),
            "versions": dict(timeline.versions),
        },
    )


def _leaks(table: GrowthTable) -> tuple[list[Finding], str]:
    """Leaks, the fastest first; and what more it takes, where the points do not decide."""
    leaks: list[Finding] = []
    needed = 0
    inside = leak_inside(table)
    parts = separate_leaks(table, inside) if inside is not None else []
    until_full = table.until_full(inside) if inside is not None else 0
    if until_full:
        needed = until_full
    elif inside is not None and parts:
        leaks += [_inside_leak(part, _seen_late(growth_of(part), inside)) for part in parts]
    elif inside is not None:
        found = _inside_leak(table, inside)
        # with one snapshot nothing tells it from a buffer that fills
        if found.cause is Cause.UNKNOWN and len(table.snapshots) == 1:
            needed = len(table.timeline.points)
        else:
            leaks.append(found)
    elif table.undecided:
        needed = max(1, min(one.needs_more for one in table.undecided))
    doubt = _needs_more(table.timeline, needed) if needed else ""
    outside: tuple[tuple[Where, Fit], ...] = (("children", table.children), ("shm", table.shm))
    for where, growth in outside:
        if not table.matters(growth):
            continue
        closed = cannot_be_looked_into(table) if where == "children" else None
        if closed is None:
            leaks.append(_outside_leak(table, where, growth))
        else:
            doubt = _is_closed(closed, growth)
    leaks.sort(key=lambda finding: -finding.bytes_per_generation)
    return leaks, doubt


def _seen_late(growth: Fit, whole: Fit) -> Fit:
    """What rose when the first snapshot saw it began when all of it did."""
    was_there = growth.onset is None or growth.onset <= growth.start
    return replace(growth, onset=whole.onset) if was_there else growth


def _needs_more(timeline: Timeline, needed: int) -> str:
    return (
        f"memory may be growing, but the recording is too short to decide; run about "
        f"{needed} more {_unit(timeline)}s"
    )


def _is_closed(worker: GrowthTable, growth: Fit) -> str:
    return (
        f"process {worker.timeline.main_pid} grows (worker processes together by "
        f"{format_bytes(round(growth.rate))} per {_unit(worker.timeline)}), and no snapshot of it "
        f"was taken: it may fill a buffer or leak; {len(worker.timeline.points)} more "
        f"{_unit(worker.timeline)}s may show whether it stops"
    )


def _inside_leak(table: GrowthTable, growth: Fit) -> Finding:
    timeline = table.timeline
    found = explain_leak(table, growth.onset if growth.onset is not None else growth.start)
    adding, added = adding_phase(timeline, found.culprit.path)
    path = found.culprit.path
    stored = found.added_in or tuple(stored_lines(timeline, path))
    # that a function assigns to its own variable says nothing: it may be the loop's
    stored = tuple(line for line in stored if not path.startswith(f"{function_of(line)}():"))
    phase = adding or phase_of_lines(timeline, stored) or leaking_phase(table)
    if adding:
        line = f"{added} elements were added while {adding} ran"
        found = replace(found, evidence=(*found.evidence, line))
    return _leak(timeline, growth, found, phase, _split(table))


def _split(table: GrowthTable) -> list[str]:
    """How much of the growth is filling, where some of it is."""
    first, last = table.timeline.points[0], table.timeline.points[-1]
    filled = round(table.filled_at(last.generation) - table.filled_at(first.generation))
    total = last.anon_bytes - first.anon_bytes
    if filled <= 0 or total <= 0:
        return []
    names = ", ".join(name.removeprefix("variables/") for name in table.fillings[:3])
    return [
        f"total growth: {format_bytes(total)}; {format_bytes(min(filled, total))} of it fills "
        f"buffers ({names}), {format_bytes(max(0, total - filled))} does not"
    ]


def _outside_leak(table: GrowthTable, where: Where, growth: Fit) -> Finding:
    outside = leak_in_shm(table) if where == "shm" else leak_in_workers(table)
    phase = outside_phase(table.timeline, where)
    if outside.seen_in is not table.timeline and phase not in _phase_names(table.timeline):
        phase = phase_of_lines(outside.seen_in, outside.found.added_in) or phase
    return _leak(table.timeline, growth, outside.found, phase, seen_in=outside.seen_in)


def _phase_names(timeline: Timeline) -> set[str]:
    return {phase.name for phase in timeline.phases}


def _leak(
    timeline: Timeline,
    growth: Fit,
    found: Explanation,
    phase: str,
    split: Sequence[str] = (),
    seen_in: Timeline | None = None,
) -> Finding:
    per, points = timeline.rate_unit
    rate, low, high = (round(points * one) for one in (growth.rate, *growth.rate_interval))
    onset = onset_generation(timeline, growth)
    where = f", in {phase}" if phase else ""
    since = f", since iteration {onset}" if onset is not None else ""
    fault, why = _responsible(timeline, found, phase)
    code = code_lines(seen_in or timeline, found, phase)
    growing = lines_while_growing(seen_in or timeline, phase)
    known = known_leaks(timeline.versions, found, (*code.stored_at, *code.made_at, *growing))
    steps = [leak.advice for leak in known]
    steps.append(changed_line(found, code) or found.advice)
    return Finding(
        Kind.LEAK,
        f"leak: {leak_sentence(found.cause, found.culprit, code)}: {format_bytes(rate)} "
        f"{per_iteration(per)}{since}{where}",
        phase=phase,
        cause=found.cause,
        culprit=found.culprit,
        bytes_per_generation=rate,
        interval_bytes=(low, high),
        onset_generation=onset,
        is_guess=found.is_guess,
        evidence=(
            f"level: {format_bytes(timeline.points[0].anon_bytes)} -> "
            f"{format_bytes(timeline.points[-1].anon_bytes)} over {len(timeline.points)} "
            f"{_unit(timeline)}s",
            *split,
            *found.evidence,
            *code.evidence(),
            *([f"caused by {fault}: {why}"] if fault else []),
            *(f"known: {leak.text}: {leak.link}" for leak in known),
        ),
        advice="; ".join(filter(None, steps)),
        apply=found.apply,
        fault=fault,
        per=per,
        code=code,
        known=known,
    )


def _responsible(timeline: Timeline, found: Explanation, phase: str) -> tuple[str, str]:
    classes = {name for snapshot in timeline.snapshots for name in snapshot.user_classes}
    return responsible_for(found.cause, found.culprit, found.added_in, phase, classes)


def _unit(timeline: Timeline) -> str:
    return "iteration" if timeline.by_generation else "period"
