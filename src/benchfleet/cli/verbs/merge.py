"""``benchfleet merge``: fetch every finished result into this host's folder."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from benchfleet.campaign_results import comparison_of
from benchfleet.cli.shared import next_command, options
from benchfleet.cli.shared.leases import ledger_of
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.progress_line import progress_line
from benchfleet.cli.text.run_summary import write_report
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.humanize import counted
from benchfleet.errors import LedgerAway, ResultsError, StoreUnreachable, UnknownName
from benchfleet.ledger.base import Ledger
from benchfleet.result_locations import ResultLocator
from benchfleet.results.disk import make_folder
from benchfleet.results.stores.base import ResultStore, open_store
from benchfleet.results.stores.git import GitStore
from benchfleet.results.stores.git_merge import Done, Merged, merge_branches
from benchfleet.results.transfer.download import Downloads, download_results, local_defect
from benchfleet.runner.recovery.startup import publish_committed
from benchfleet.study import Study
from benchfleet.summary import write_summaries_of_others

_MAX_LISTED_RESULTS = 20  # results that are named one by one


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
        help="look there too: a results folder, here or by rsync://, or an object store; "
        "repeatable",
    )


def main(arguments: argparse.Namespace) -> int:
    """Fetch what is not here, check it, publish it, and write the report of all of it."""
    study, cells = options.opened(arguments)
    ledger = ledger_of(study)
    make_folder(study.layout.root)
    with closing(ledger):
        for published in publish_committed(ledger, study.layout):
            if published.problem:
                say(f"benchfleet: {published.problem}", to=sys.stderr)
        records = study.records(cells)
        absent = ResultLocator(study).absent(records)
        named = {source: _source_stores(source, study) for source in arguments.sources}
        stores = [*chain.from_iterable(named.values()), *_stores(study, ledger)]
        done = [record for record in records if record.state == "success"]
        absent_paths = {record.path for record in absent}
        local = [record for record in done if record.path not in absent_paths]
        defects = {r.path: why for r in local if (why := local_defect(study.layout, r))}
        to_fetch = [*absent, *(record for record in local if record.path in defects)]
        with progress_line("results fetched") as progress:
            got = download_results(study.layout, to_fetch, stores, progress=progress)
        branch = _branch(study, ledger, records)
        empty = [source for source, stores in named.items() if not _has_results(stores, done, got)]
        defects = {r.path: defects[r.path] for r in got.missing if r.path in defects}
        missing_records = [record for record in got.missing if record.path not in defects]
        where = ResultLocator(study).elsewhere(missing_records)
        missing = {r.path: where.get(r.fingerprint) or _host_of(r) for r in missing_records}
    _write(study, got)
    if arguments.json:
        payload = {
            "campaign": study.campaign.name,
            "results": str(study.layout.root),
            "done": len(done),
            "came": got.came,
            "replaced": got.replaced,
            "refused": [
                {"cell": path, "from": store, "why": why} for path, store, why in got.refused
            ],
            "unsound": defects,
            "missing": missing,
            "away": got.away,
            "nothing": empty,
            **({"branch": asdict(branch)} if branch else {}),
        }
        print_json(payload)
    else:
        _print_summary(arguments, study, got, len(done), defects, missing, empty)
        if branch is not None:
            _print_branch(branch)
    return 1 if missing or defects else 0


def _stores(study: Study, ledger: Ledger) -> list[ResultStore]:
    """The campaign's store, and the ledger's."""
    stores = [store] if (store := study.result_store()) is not None else []
    if (own := ledger.results_store()) is not None:
        stores.append(own)
    return stores


def _branch(study: Study, ledger: Ledger, records: Sequence[CellRecord]) -> Merged | None:
    """Where the ledger is in git, the results of all machines come onto one branch there."""
    store = ledger.results_store()
    if not isinstance(store, GitStore):
        return None
    done = [
        Done(id=record.id, path=record.path, digest=record.outcome.digest)
        for record in records
        if record.state == "success" and record.outcome
    ]
    remote, objects = store.repository
    try:
        merged = merge_branches(remote, objects, study.campaign.name, done, at=time.time())
        ledger.compact()
    except (StoreUnreachable, LedgerAway) as error:
        say(f"benchfleet: {error}", to=sys.stderr)
        return None
    return merged


def _print_branch(branch: Merged) -> None:
    for path, why in branch.refused.items():
        say(f"refused  {path}: {why}")
    for listed, why in branch.waiting.items():
        say(f"waits    {listed}: {why}")
    if branch.commit:
        struck = (
            f", {counted(branch.struck, 'line')} removed from the lists" if branch.struck else ""
        )
        print(f"main     {counted(len(branch.entries), 'result')} merged{struck}")


def _source_stores(source: str, study: Study) -> list[ResultStore]:
    """A results folder, or the one above it."""
    if "://" not in source:
        folder = Path(source).resolve()
        if not folder.is_dir():
            raise UnknownName(f"no folder {source}; name a results folder or a URL")
        source = folder.as_uri()
    return [open_store(source, study.campaign.name), open_store(source, "")]


def _has_results(stores: Sequence[ResultStore], done: Sequence[CellRecord], got: Downloads) -> bool:
    """Whether one of these stores has any of the results; an unreachable one counts as yes."""
    brought = {
        *got.came.values(),
        *(store for _, store, _ in got.refused),
        *got.away,
    }
    paths = [record.path for record in done]
    try:
        return (
            any(store.display_url in brought or store.digests(paths) for store in stores)
            or not paths
        )
    except ResultsError as error:
        got.away[stores[0].display_url] = str(error)
        return True


def _host_of(record: CellRecord) -> str:
    return record.outcome.host if record.outcome else ""


def _write(study: Study, downloads: Downloads) -> None:
    """Write report and summaries of the whole campaign, whatever part was merged."""
    write_summaries_of_others(study)
    if downloads.came or not study.layout.report.exists():
        cells = study.cells()
        write_report(study, comparison_of(study, cells, study.records(cells)))


def _print_summary(
    arguments: argparse.Namespace,
    study: Study,
    got: Downloads,
    done: int,
    defects: dict[str, str],
    missing: dict[str, str],
    empty: Sequence[str],
) -> None:
    local_count = done - len(missing)
    lines = [f"{study.campaign.name}: {counted(done, 'result', 'are')} done, {local_count} here"]
    if got.came:
        lines.append(f"{len(got.came)} came from {', '.join(sorted({*got.came.values()}))}")
    lines += _first_lines(
        [f"replaced {path}  the other copy is in {at}" for path, at in got.replaced.items()]
    )
    lines += [f"away     {store}: {why}" for store, why in got.away.items()]
    for source in empty:
        lines.append(f"empty    {source} has no finished result of {study.campaign.name}")
    if empty:
        lines.append("--from takes the results folder, or its parent")
    lines += _first_lines(
        [f"refused  {path}  from {store}: {why}" for path, store, why in got.refused]
    )
    lines += _first_lines([f"unsound  {path}: {why}" for path, why in defects.items()])
    lines += _first_lines(
        [f"missing  {path}  last seen at {host}" for path, host in missing.items()]
    )
    if missing:
        lines.append("name their location: benchfleet merge … --from rsync://user@host/its/results")
    if defects:
        repair = f"{next_command.same_choice(arguments, 'verify')} --repair"
        lines.append(f"name a folder that has them with --from, or repair them: {repair}")
    lines += [
        f"results  {display_path(study.layout.root)}",
        f"report   {display_path(study.layout.report)}",
        f"combined {display_path(study.layout.combined)}",
    ]
    say(*lines)


def _first_lines(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _MAX_LISTED_RESULTS
    return [*lines[:_MAX_LISTED_RESULTS], *([f"… and {more} more"] if more > 0 else [])]
