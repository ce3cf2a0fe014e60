"""What a person reads when a run ends: the comparison, what to do next, and three paths."""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Iterator, Sequence
from typing import TextIO

from benchfleet.campaign_results import comparison_of
from benchfleet.cli.shared import next_command
from benchfleet.cli.text import gate_text
from benchfleet.cli.text.notices import as_of, counts_text
from benchfleet.cli.text.output import maybe_unread, print_json, print_whole, say
from benchfleet.cli.text.remote_results import elsewhere_lines
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.error_signatures import RETRYABLE_KINDS
from benchfleet.domain.humanize import counted, examples
from benchfleet.ledger.gates import PhaseStatus
from benchfleet.reports import markdown, wording
from benchfleet.reports.tables import Comparison
from benchfleet.result_locations import ResultLocator
from benchfleet.runner.resources.shapes import NO_DEVICE
from benchfleet.runner.run_end import RunEnd
from benchfleet.study import Study
from benchfleet.summary import summarised


def show(study: Study, comparison: Comparison, stream: TextIO | None = None) -> None:
    """Print the comparison."""
    from benchfleet.reports.terminal import ComparisonView

    view = ComparisonView(
        comparison=comparison,
        title=study.campaign.name,
        results=display_path(study.layout.root),
    )
    print_whole(view, to=stream)


def write_report(study: Study, comparison: Comparison) -> None:
    """Write the report as Markdown into the campaign's folder."""
    text = markdown.render(comparison, title=study.campaign.name)
    study.layout.report.write_text(text, encoding="utf-8")


def conclude(
    arguments: argparse.Namespace, study: Study, cells: Sequence[Cell], end: RunEnd
) -> int:
    """Say how a run ended, and return its exit code."""
    records = study.records(cells)
    where = ResultLocator(study)
    absent = where.absent(records)
    elsewhere = where.elsewhere(absent)
    missing = [record for record in absent if record.fingerprint not in elsewhere]
    phases = standings_of_all(study) if any(cell.phase for cell in cells) else []
    comparison = comparison_of(study, cells, records)
    with maybe_unread():
        if arguments.json:
            print_json(summarised(study, cells, records, end))
        else:
            show_end(arguments, study, comparison, end, missing, phases)
            elsewhere_text = elsewhere_lines(arguments, elsewhere.values(), "elsewhere  {results}")
            say(*elsewhere_text, *_unsent(study, end), *_kept_back(*where.oversized(records)))
    if end.interrupted:
        return 128 + signal.SIGINT
    all_there = not missing and not where.unpublished(records) and not end.unsent
    settled = comparison.counts["success"] + sum(one.cells for one in comparison.race)
    complete = settled == comparison.counts["total"] and all_there
    return 0 if complete and not any(map(gate_text.closed, phases)) else 1


def show_counts(arguments: argparse.Namespace, study: Study, end: RunEnd) -> None:
    """Show what the run itself knows, where the ledger cannot be asked how it ended."""
    counted_at = time.time() - end.counts_age if end.counts_age else None
    progress, results = end.progress, study.layout.root
    counts = {"total": progress.total, **progress.states, "reused": progress.reused}
    with maybe_unread():
        if arguments.json:
            payload = {"campaign": study.campaign.name, "results": str(results), "ran": end.ran}
            print_json({**payload, "counts": counts, "counted_at": counted_at})
        else:
            stands = f"{study.campaign.name}: {counts_text(progress)}{as_of(counted_at)}"
            say(stands)
            say(f"results  {display_path(results)}")


def standings_of_all(study: Study) -> list[PhaseStatus]:
    """How the campaign's phases stand, whatever part of it was run."""
    cells = study.cells() if study.campaign.phases else []
    return study.phases(cells, study.records(cells)) if cells else []


def _kept_back(results: int, large: int) -> list[str]:
    """How many results others get only from here."""
    if not results:
        return []
    has = "has" if results == 1 else "have"
    return [
        f"large    {counted(results, 'result')} here {has} files over {large / 1e6:g} MB, too large"
        " for the repository: use `merge --from` this host, or a results store in the campaign"
        " (results: rsync://… or s3://…)"
    ]


def _unsent(study: Study, end: RunEnd) -> list[str]:
    """How many results are not at the campaign's place or in its result cache, and why."""
    lines = []
    for unsent, url, problem in (
        (end.unsent, study.campaign.store_url, end.problem),
        (end.unsent_to_cache, study.result_cache_url, end.cache_problem),
    ):
        if unsent:
            one = "is" if unsent == 1 else "are"
            why = f": {problem}" if problem else ""
            lines.append(
                f"{counted(unsent, 'result')} {one} not uploaded to {url} yet; the next run "
                f"uploads them first{why}"
            )
    return lines


def _after_failures(
    arguments: argparse.Namespace,
    comparison: Comparison,
    retry: str,
    closed_phases: Sequence[str],
) -> Iterator[str]:
    """What to do about failed cells: where some need a change, what to change comes first."""
    if all(group.kind in RETRYABLE_KINDS for group in comparison.failures):
        yield f"try the failed ones again: {retry}"
        return
    yield f"see what to change: {next_command.same_choice(arguments, 'failures')}"
    if all(group.scoring for group in comparison.failures):
        rescore = next_command.same_choice(arguments, "rescore")
        again = next_command.joined(arguments, [rescore], closed_phases)
        yield f"then score the answers again: {again}"
    else:
        yield f"then try the failed ones again: {retry}"


def show_end(
    arguments: argparse.Namespace,
    study: Study,
    comparison: Comparison,
    end: RunEnd,
    missing: Sequence[CellRecord],
    phases: Sequence[PhaseStatus] = (),
) -> None:
    """Print what a run ended with; a person who reads only this knows what to do next. Of a run
    that could run nothing, no tables of pending cells hide why."""
    counts = comparison.counts
    print()
    if end.broken and not end.ran and counts["pending"] == counts["total"]:
        say(f"{study.campaign.name}   {wording.counts(comparison)}")
    else:
        show(study, comparison)
        print()
    for why in sorted({why for _, why in end.impossible}):
        if why.startswith(NO_DEVICE) and end.broken:
            continue  # what the run ended with says why none is left
        cells = [cell.id for cell, reason in end.impossible if reason == why]
        say(f"cannot run here: {examples(cells, 1)}: {why}")
    for line in gate_text.lines(phases):
        say(line.strip())
    for record in missing:
        say(f"done, but its result is missing: {record.path}")
    if end.broken:
        say(f"ended early: {end.broken}")
    again = next_command.same_choice(arguments, "run")
    retry = next_command.same_choice(arguments, "retry")
    say(*gate_text.advice(phases, lambda verb: next_command.same_choice(arguments, verb)))
    if missing:
        say(f"run them again: {retry} --gone && {again}")
    if counts["failed"] or counts["partial"]:
        closed_phases = [one.phase.name for one in phases if gate_text.closed(one) and one.failed]
        chain = next_command.joined(arguments, [retry, again], closed_phases)
        say(*_after_failures(arguments, comparison, chain, closed_phases))
    if end.interrupted:
        say(f"nothing is lost; continue with: {again}")
    elif end.broken and counts["pending"]:
        say(f"nothing is lost; continue once that is fixed: {again}")
    say(f"results  {display_path(study.layout.root)}")
    say(f"report   {display_path(study.layout.report)}")
    say(f"summary  {display_path(study.layout.summary)}")
