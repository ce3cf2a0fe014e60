"""The campaigns that one server shows, each with its read model and its watcher."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchfleet import registry
from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.watcher import Watcher
from benchfleet.domain.names import path_part
from benchfleet.errors import LedgerAbsent
from benchfleet.ledger.addresses import split_url
from benchfleet.ledger_campaign import campaign_of
from benchfleet.study import Study, open_study

PAGE_TIMEOUT_S = 0.3  # of the first read, before a page says that it goes on
STOP_TIMEOUT_S = 0.5


@dataclass(frozen=True, kw_only=True)
class ShownCampaign:
    """A campaign that is shown."""

    slug: str  # how addresses call it
    study: Study
    watcher: Watcher

    @property
    def name(self) -> str:
        return self.study.campaign.name

    @property
    def has_lost_ledger(self) -> bool:
        """Whether the ledger that was read is not there now. Raises LedgerError."""
        return self.watcher.was_there and not self.study.has_ledger()

    def require_ledger(self) -> None:
        """Raises LedgerError if the ledger that was read is away now: nothing would be read."""
        if self.has_lost_ledger:
            raise LedgerAbsent(f"{self.study.ledger_text} is not there any more")

    def view(self) -> ReadModel:
        """Its read model, and count a viewer."""
        return self.watcher.view()

    def view_soon(self) -> ReadModel:
        """The same for a page, which can also say that the ledger is being read."""
        return self.watcher.view(PAGE_TIMEOUT_S)


class Campaigns:
    """The campaigns by their slugs; each is opened when somebody looks at it first."""

    def __init__(self, openers: Mapping[str, Callable[[], Study]]) -> None:
        self._openers = {path_part(name): (name, opener) for name, opener in openers.items()}
        self._opened: dict[str, ShownCampaign] = {}
        self._lock = threading.Lock()

    @property
    def names(self) -> dict[str, str]:
        """The name of each campaign, by its slug."""
        return {slug: name for slug, (name, _) in self._openers.items()}

    def get(self, slug: str) -> ShownCampaign | None:
        """The campaign; None where there is none of that slug. Raises LedgerError."""
        with self._lock:
            if slug in self._opened:
                return self._opened[slug]
            if slug not in self._openers:
                return None
            study = self._openers[slug][1]()
            model = ReadModel(study.campaign.name, study.campaign.phases, study.lease)
            watcher = Watcher(study, model)
            self._opened[slug] = ShownCampaign(slug=slug, study=study, watcher=watcher)
            return self._opened[slug]

    @property
    def opened(self) -> list[ShownCampaign]:
        """Those that somebody looked at."""
        with self._lock:
            return list(self._opened.values())

    def stop(self) -> None:
        """End all watchers, in half a second at most."""
        watchers = [one.watcher for one in self.opened]
        for watcher in watchers:
            watcher.ask_to_stop()
        until = time.monotonic() + STOP_TIMEOUT_S
        for watcher in watchers:
            watcher.join(max(0.0, until - time.monotonic()))


def campaigns_of_study(study: Study) -> Campaigns:
    """The campaign of a file, and the others of its ledger where that has several."""
    openers: dict[str, Callable[[], Study]] = {study.campaign.name: lambda: study}
    if study.url:
        base = study.layout.root.parent
        for name in _names(study.url):
            openers.setdefault(name, _opener(study.url, name, base))
    return Campaigns(openers)


def campaigns_of_ledger(url: str, results: Path | None, name: str = "") -> Campaigns:
    """The campaigns of a ledger, or the one of that name. Raises LedgerError."""
    if name:
        return Campaigns({name: _opener(url, name, results)})
    names = _names(url)
    if len(names) <= 1:
        campaign = campaign_of(url, results=results)
        return Campaigns({campaign.name: lambda: open_study(campaign, ledger=url)})
    return Campaigns({one: _opener(url, one, results) for one in names})


def _names(url: str) -> list[str]:
    scheme, rest = split_url(url)
    kind = registry.load("ledgers", scheme)
    return list(kind.campaigns(Path(rest) if scheme == "sqlite" else url))


def _opener(url: str, name: str, results: Path | None) -> Callable[[], Study]:
    return lambda: open_study(campaign_of(url, name, results=results), ledger=url)
