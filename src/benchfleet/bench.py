"""A campaign tied to its results folder and its ledger: all that looking at it needs."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchfleet import registry
from benchfleet.campaign.base import Campaign
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.errors import LedgerError, LedgerUnreachable, ResultsError, UnknownName
from benchfleet.ledger.base import Ledger
from benchfleet.results.layout import Layout
from benchfleet.results.read import published_folders


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A campaign with its folder and its ledger's address."""

    campaign: Campaign
    layout: Layout
    url: str  # of the ledger; "" for the embedded one in the results folder

    @property
    def embedded(self) -> Path | None:
        """The embedded ledger's file, or None where another ledger is named."""
        scheme, rest = split_url(self.url) if self.url else ("sqlite", str(self.layout.ledger))
        return Path(rest) if scheme == "sqlite" else None

    def ledger(self, *, known_results: bool = False) -> Ledger:
        """Open the ledger, making it where there is none yet.

        Raises LedgerError where results lie beside a ledger that is gone, unless they are known.
        """
        file = self.embedded
        if file is None:
            opened: Ledger = registry.load("ledgers", split_url(self.url)[0])()
            return opened
        if not known_results and not file.exists():
            self._refuse_to_forget(file)
        make_folder(file.parent)
        embedded: Ledger = registry.load("ledgers", "sqlite")(file, campaign=self.campaign.name)
        return embedded

    def existing_ledger(self) -> Ledger | None:
        """Open the ledger to look at it; None where nothing was run yet."""
        file = self.embedded
        return None if file is not None and not file.exists() else self.ledger()

    def records(self, cells: Iterable[Cell]) -> list[CellRecord]:
        """The cells as the ledger has them; empty where nothing was run yet."""
        ledger = self.existing_ledger()
        if ledger is None:
            return []
        try:
            return list(ledger.cells(among={cell.fingerprint for cell in cells}))
        finally:
            ledger.close()

    def set_aside_damaged_ledger(self) -> Path | None:
        """Move an embedded ledger that cannot be opened out of the way; where it is kept."""
        file = self.embedded
        if file is None or not file.exists():
            return None
        try:
            self.ledger().close()
        except LedgerUnreachable:
            number = 1
            while (kept := file.with_name(f"{file.name}.damaged-{number}")).exists():
                number += 1
            for suffix in ("-wal", "-shm", ""):
                if (part := file.with_name(file.name + suffix)).exists():
                    os.rename(part, kept.with_name(kept.name + suffix))
            return kept
        return None

    def _refuse_to_forget(self, file: Path) -> None:
        """A new ledger beside old results would run everything again."""
        if next(published_folders(self.layout.root), None) is not None:
            raise LedgerError(
                f"{file} is not there, but results are: a new ledger would run them again.\n"
                f"`benchfleet ledger rebuild {self.campaign.file}` makes one from them;"
                " or name another --results folder."
            )


def split_url(url: str) -> tuple[str, str]:
    """``sqlite:///abs/ledger.db``, ``sqlite:rel.db`` or a bare path as scheme and rest."""
    scheme, colon, rest = url.partition(":")
    if not colon or "/" in scheme:
        return "sqlite", url
    if scheme not in registry.names("ledgers"):
        raise UnknownName(registry.no_such("ledgers", scheme))
    return scheme, rest.removeprefix("//")


def make_folder(folder: Path) -> None:
    """Make a results folder, or say why it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".write-{uuid.uuid4().hex[:8]}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ResultsError(
            f"the results folder {folder} cannot be written ({error.strerror}); "
            "name another with --results or under 'results' in the campaign file"
        ) from None


def open_bench(campaign: Campaign, *, ledger: str = "") -> Bench:
    """Tie a campaign to its folder and its ledger."""
    return Bench(campaign=campaign, layout=Layout(campaign.results), url=ledger)
