"""A campaign of which only its ledger tells: what a host without the campaign's file runs."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from benchfleet import registry
from benchfleet.campaign.base import RESULTS, Campaign, results_folder
from benchfleet.domain.campaign_record import (
    CAMPAIGN_RECORDED,
    CampaignRecord,
    newest_record,
)
from benchfleet.domain.eligibility import Eligibility
from benchfleet.domain.matrix import Matrix
from benchfleet.domain.names import path_part
from benchfleet.errors import LedgerAbsent, LedgerMisnamed
from benchfleet.hints import hint
from benchfleet.ledger.addresses import display_url, split_url
from benchfleet.results.layout import Layout
from benchfleet.study import open_study


def campaign_of(url: str, name: str = "", *, results: Path | None = None) -> Campaign:
    """The campaign as the ledger at `url` has it: the one of that name, or the only one.

    Results go below `results`, which is relative to the current folder. Raises LedgerAbsent.
    """
    scheme, rest = split_url(url)
    kind = registry.load("ledgers", scheme)
    names = kind.campaigns(Path(rest) if scheme == "sqlite" else url)
    address_text = rest if scheme == "sqlite" else display_url(url)
    if not names and scheme == "sqlite" and rest.startswith("/") and Path(rest[1:]).exists():
        raise LedgerAbsent(f"{rest} does not exist; give the file in this folder as {rest[1:]}")
    if not names:
        raise LedgerAbsent(
            f"{address_text} has no ledger of a campaign; create one with `benchfleet run` or "
            "`benchfleet ledger init`"
        )
    if name and name not in names:
        raise LedgerAbsent(
            f"{address_text} has no ledger of campaign {name!r}; {hint(name, names)}"
        )
    if not name and len(names) > 1:
        raise LedgerMisnamed(
            f"{address_text} has several campaigns; add --campaign with one of {', '.join(names)}"
        )
    name = name or names[0]
    campaign = Campaign(
        name=name,
        file=None,
        results=_results_of(name, Path(rest) if scheme == "sqlite" else None, results),
        matrix=Matrix(models=(), configs=(), workloads=()),
    )
    ledger = open_study(campaign, ledger=url).open_existing_ledger()
    if ledger is None:
        raise LedgerAbsent(f"{address_text} has no ledger of campaign {name!r} any more")
    with closing(ledger):
        record = newest_record(ledger.events(kinds={CAMPAIGN_RECORDED})) or CampaignRecord(
            name=name
        )
    placement = record.placement or campaign.placement
    eligibility = campaign.eligibility
    if record.rules is not None:
        eligibility = Eligibility(rules=record.rules, tiers=())
    return replace(
        campaign,
        placement=placement,
        store_url=record.results,
        phases=record.phases,
        runners=record.runners,
        eligibility=eligibility,
        variants=record.variants,
        suites=record.suites,
        notify=record.notify,
        race=record.race,
        result_cache=record.result_cache,
    )


def _results_of(name: str, file: Path | None, base: Path | None) -> Path:
    """Where results go without a campaign's file: beside a ledger that lies among them. A
    `BenchmarkExecutor` puts them into the folder that its caller names."""
    if file is not None:
        folder = Path(os.path.abspath(file)).parent
        among_results = folder.name == path_part(name) or Layout(folder).has_own_id
        beside = Layout(folder).ledger.name == file.name and among_results
        if beside and (base is None or Path(os.path.abspath(base)) == folder):
            return folder
    return results_folder(Path.cwd(), base or RESULTS, name)
