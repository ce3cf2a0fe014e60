"""``benchfleet merge``: bring every result that the ledger calls done into this host's folder."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from benchfleet.cli.shared import options
from benchfleet.cli.shared.leases import ledger_of
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.progress_line import progress_line
from benchfleet.cli.text.run_summary import compared, write_report
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.humanize import counted
from benchfleet.errors import LedgerAway, ResultsError, StoreUnreachable, UnknownName
from benchfleet.ledger.base import Ledger
from benchfleet.result_locations import ResultLocator
from benchfleet.results.disk import make_folder
from benchfleet.results.stores.base import Place, place_at
from benchfleet.results.stores.git import GitPlace
from benchfleet.results.stores.git_merge import Done, Merged, merge_branches
from benchfleet.results.transfer.download import Gathered, gather, unsound
from benchfleet.runner.recovery.startup import publish_committed
from benchfleet.study import Study
from benchfleet.summary import write_summaries_of_others

_SHOWN = 20  # results that are named one by one


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.optional_campaign(
        parser,
        example="benchfleet merge study.yaml --from rsync://me@lab2/home/me/benchmark_results",
    )
    options.choice(parser)
    parser.add_argument(
        "--from",
        dest="sources",
        metavar="DIR|URL",
        action="append",
        default=[],
        help="look there too: a results folder, here or by rsync://, or an object store; may be "
        "said again",
    )


def main(arguments: argparse.Namespace) -> int:
    """Fetch what is not here, check it, publish it, and write the report of all of it."""
    study, cells = options.opened(arguments)
    ledger = ledger_of(study)
    make_folder(study.layout.root)
    with closing(ledger):
        for found in publish_committed(ledger, study.layout):
            if found.problem:
                say(f"benchfleet: {found.problem}", to=sys.stderr)
        records = study.records(cells)
        absent = ResultLocator(study).absent(records)
        named = {source: _source(source, study) for source in arguments.sources}
        places = [*chain.from_iterable(named.values()), *_places(study, ledger)]
        with progress_line("results fetched") as seen:
            told = gather(study.layout, absent, places, seen=seen)
        branch = _branch(study, ledger, records)
        done = [record for record in records if record.state == "success"]
        nothing = [source for source, places in named.items() if not _holds(places, done, told)]
        here = [record for record in done if record not in absent]
        unfit = {r.path: why for r in here if (why := unsound(study.layout, r))}
        where = ResultLocator(study).elsewhere(told.missing)
        last = {
            record.path: where.get(record.fingerprint) or _host_of(record)
            for record in told.missing
        }
    _write(study, told)
    if arguments.json:
        found_ = {
            "campaign": study.campaign.name,
            "results": str(study.layout.root),
            "done": len(done),
            "came": told.came,
            "refused": [
                {"cell": path, "from": place, "why": why} for path, place, why in told.refused
            ],
            "unsound": unfit,
            "missing": last,
            "away": told.away,
            "nothing": nothing,
            **({"branch": asdict(branch)} if branch else {}),
        }
        print_json(found_)
    else:
        _tell(arguments, study, told, len(done), unfit, last, nothing)
        if branch is not None:
            _tell_branch(branch)
    return 1 if last or unfit else 0


def _places(study: Study, ledger: Ledger) -> list[Place]:
    """Where results may lie, whatever the command names: the campaign's place, and the ledger's."""
    places = [place] if (place := study.result_store()) is not None else []
    if (own := ledger.results_store()) is not None:
        places.append(own)
    return places


def _branch(study: Study, ledger: Ledger, records: Sequence[CellRecord]) -> Merged | None:
    """Where the ledger is in git, the results of all machines come onto one branch there."""
    place = ledger.results_store()
    if not isinstance(place, GitPlace):
        return None
    done = [
        Done(id=record.id, path=record.path, digest=record.outcome.digest)
        for record in records
        if record.state == "success" and record.outcome
    ]
    remote, objects = place.repository
    try:
        told = merge_branches(remote, objects, study.campaign.name, done, at=time.time())
        ledger.compact()
    except (StoreUnreachable, LedgerAway) as error:
        say(f"benchfleet: {error}", to=sys.stderr)
        return None
    return told


def _tell_branch(branch: Merged) -> None:
    for path, why in branch.refused.items():
        say(f"refused  {path}: {why}")
    if branch.commit:
        struck = f", {counted(branch.struck, 'line')} struck off the lists" if branch.struck else ""
        print(f"main     {counted(len(branch.entries), 'result')} merged{struck}")


def _source(source: str, study: Study) -> list[Place]:
    """A results folder, or the one above it."""
    if "://" not in source:
        folder = Path(source).resolve()
        if not folder.is_dir():
            raise UnknownName(f"there is no folder {source} to merge from")
        source = folder.as_uri()
    return [place_at(source, study.campaign.name), place_at(source, "")]


def _holds(places: Sequence[Place], done: Sequence[CellRecord], told: Gathered) -> bool:
    """Whether one of these has any of the results, or may: one that is away is told as such."""
    brought = {*told.came.values(), *(place for _, place, _ in told.refused), *told.away}
    paths = [record.path for record in done]
    try:
        return any(place.shown in brought or place.there(paths) for place in places) or not paths
    except ResultsError as error:
        told.away[places[0].shown] = str(error)
        return True


def _host_of(record: CellRecord) -> str:
    return record.outcome.host if record.outcome else ""


def _write(study: Study, told: Gathered) -> None:
    """Report and summaries speak of the whole campaign, whatever part of it was merged."""
    write_summaries_of_others(study)
    if told.came or not study.layout.report.exists():
        cells = study.cells()
        write_report(study, compared(study, cells, study.records(cells)))


def _tell(
    arguments: argparse.Namespace,
    study: Study,
    told: Gathered,
    done: int,
    unfit: dict[str, str],
    last: dict[str, str],
    nothing: Sequence[str],
) -> None:
    here = done - len(last)
    lines = [f"{study.campaign.name}: {counted(done, 'result', 'are')} done, {here} here"]
    if told.came:
        lines.append(f"{len(told.came)} came from {', '.join(sorted({*told.came.values()}))}")
    lines += [f"away     {place}: {why}" for place, why in told.away.items()]
    for source in nothing:
        lines.append(f"nothing  {source} holds no result that {study.campaign.name} calls done")
    if nothing:
        lines.append("--from names the folder of results, or the one above it")
    lines += _some([f"refused  {path}  from {place}: {why}" for path, place, why in told.refused])
    lines += _some([f"unsound  {path}: {why}" for path, why in unfit.items()])
    lines += _some([f"missing  {path}  last seen at {host}" for path, host in last.items()])
    if last:
        lines.append("name where they lie: benchfleet merge … --from rsync://user@host/its/results")
    if unfit:
        lines.append(f"mend what is unsound: {options.same_choice(arguments, 'verify')} --repair")
    lines += [
        f"results  {display_path(study.layout.root)}",
        f"report   {display_path(study.layout.report)}",
    ]
    say(*lines)


def _some(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], *([f"… and {more} more"] if more > 0 else [])]
