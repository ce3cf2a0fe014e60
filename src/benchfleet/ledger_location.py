"""Finds and opens a campaign's ledger; never creates a new one beside existing results."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from benchfleet import registry
from benchfleet.campaign.base import Campaign
from benchfleet.environment import host_name, own_cache
from benchfleet.errors import BenchfleetError, LedgerAbsent, LedgerDamaged, LedgerError
from benchfleet.ledger.addresses import display_url, split_url
from benchfleet.ledger.base import Ledger
from benchfleet.results.disk import make_folder
from benchfleet.results.layout import Layout
from benchfleet.results.read import published_folders


@dataclass(frozen=True, kw_only=True)
class LedgerLocation:
    """Where a campaign's ledger is kept."""

    campaign: Campaign
    layout: Layout
    url: str  # "" for the embedded one in the results folder
    lease: float  # seconds

    @property
    def file(self) -> Path | None:
        """The file of an embedded ledger; None for one on a server."""
        scheme, rest = split_url(self.url) if self.url else ("sqlite", str(self.layout.ledger))
        return Path(rest) if scheme == "sqlite" else None

    @property
    def label(self) -> str:
        """Where the ledger is, as people may see it."""
        return str(self.file or display_url(self.url))

    @property
    def address(self) -> str:
        """The ledger's URL with an absolute path, as people may see it."""
        if self.file:
            return f"sqlite:{os.path.realpath(self.file)}"
        if self.url.startswith("git+"):
            from benchfleet.ledger.git.address import with_real_path

            return display_url(with_real_path(self.url))
        return display_url(self.url)

    def open(self, *, known_results: bool = False) -> Ledger:
        """Open the ledger, making it where there is none yet.

        Raises LedgerError where results lie beside a ledger that is gone, unless they are known.
        """
        if not known_results and (ledger := self.open_existing(writes=True)) is not None:
            return ledger
        if not self.url:
            make_folder(self.layout.root)
        return self._opened(create=True)

    def open_existing(self, *, writes: bool = False) -> Ledger | None:
        """Open the ledger; None where nothing was run yet. Who `writes` first sends the outcomes
        that an earlier process kept."""
        try:
            ledger = self._opened(create=False)
        except LedgerAbsent as absent:
            self._refuse_to_forget(absent)
            return None
        if writes:
            ledger.resend()
        return ledger

    def _opened(self, *, create: bool) -> Ledger:
        """Open the ledger. Raises LedgerAbsent where there is none and none is to be made."""
        file, ledger = self.file, None
        if file is not None:
            if not create and not file.exists():
                raise LedgerAbsent(f"{file} is not there")
            kind = registry.load("ledgers", "sqlite")
            ledger = kind(file, campaign=self.campaign.name, lease=self.lease)
        else:
            kind = registry.load("ledgers", split_url(self.url)[0])
            more = self._carried() if kind.stores_results else {}
            name = self.campaign.name
            ledger = kind(self.url, campaign=name, lease=self.lease, create=create, **more)
        return cast(Ledger, ledger)

    def _carried(self) -> dict[str, Any]:
        """The options of a ledger that stores results. Raises BenchfleetError for an invalid
        host name."""
        from benchfleet.ledger.git.address import address_of
        from benchfleet.ledger.sqlite.file import mount_table, network_file_system
        from benchfleet.results.stores.git import GitResultWriter, GitStore

        folder = self.layout.root / ".ledger"
        above = self.layout.root.absolute()
        where = next(folder for folder in (above, *above.parents) if folder.exists())
        if network_file_system(where, mount_table()) or not os.access(where, os.W_OK):
            digest = hashlib.sha256(str(self.layout.root.absolute()).encode()).hexdigest()[:12]
            folder = own_cache(os.environ) / "ledgers" / digest
        large = address_of(self.url).large
        store_url = display_url(self.campaign.store_url)
        result_writer = GitResultWriter(self.layout, self.campaign.name, large, store_url)
        store = partial(GitStore, self.campaign.name)
        try:
            host = host_name(self.campaign.folder)
        except ValueError as error:
            raise BenchfleetError(str(error)) from error
        return {"folder": folder, "files": result_writer, "open_store": store, "host": host}

    def refuse_second(self) -> None:
        """Raise LedgerError where no ledger was named, none is in the results folder, and the last
        run here used another: who makes a second one runs cells twice."""
        if self.url or self.layout.ledger.exists() or not (last := self._last_used()):
            return
        where = shlex.quote(last)
        raise LedgerError(
            f"the last run here used the ledger {last}: add --ledger {where}. If that is lost, name"
            f" the new one: --ledger {shlex.quote(f'sqlite:{self.layout.ledger}')}"
        )

    def set_aside_damaged(self) -> Path | None:
        """Move an embedded ledger that is damaged out of the way; where it is kept.

        Raises LedgerError where it cannot be used for another reason, or somebody uses it still;
        also where a file that was named shows no sign of ever having been one.
        """
        file = self.file
        if file is None or not file.exists():
            return None
        running_paths: list[str] = []
        try:
            ledger = self._opened(create=False)
            with closing(ledger):
                running = ledger.cells(states=["running"], parts=True)
                running_paths += (
                    record.path for record in running if (record.expires_in or 0.0) > 0.0
                )
                for _ in ledger.cells(with_cell=True):
                    pass  # to the end: damage shows where it is read
        except LedgerDamaged as error:
            if running_paths:
                raise LedgerError(
                    f"{error}\nA runner may still hold {running_paths[0]}: end that runner, or "
                    "wait until its lease expires."
                ) from error
            from benchfleet.ledger.sqlite.file import set_aside, was_ledger

            own = file.resolve() == self.layout.ledger.resolve()
            if not own and not was_ledger(file):
                raise
            return set_aside(file)
        return None

    def _refuse_to_forget(self, absent: LedgerAbsent) -> None:
        """A new ledger beside old results would run everything again."""
        if next(published_folders(self.layout.root), None) is not None:
            where = shlex.quote(display_url(self.url)) if self.url else ""
            at = f" --ledger {where}" if where else ""
            campaign = self.campaign.cli_arguments
            ways = [
                "pass the right ledger with --ledger",
                f"`benchfleet ledger rebuild {campaign}{at}` rebuilds one from them",
            ]
            if self.url and self.layout.ledger.exists():
                ways.insert(
                    0,
                    f"`benchfleet ledger copy {campaign} --to {where}` brings"
                    f" {self.layout.ledger} there with its history",
                )
            if last := self._last_used():
                ways[:0] = [f"the last run here used another: add --ledger {shlex.quote(last)}"]
            raise LedgerError(
                f"{absent}, but results exist. A new ledger would lack their history.\n"
                f"{'; '.join(ways)}; or name another --results folder."
            ) from absent

    def _last_used(self) -> str:
        """The address of the ledger that the last run in this folder used; "" if it is this one, or
        if no run wrote it down."""
        for file in sorted(self.layout.runners.glob("*.json"), reverse=True):
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
                record = json.loads(file.read_bytes())
                # Results may have been moved with the ledger that was among them.
                inside = f"sqlite:{os.path.realpath(Layout(Path(record['results'])).ledger)}"
                address = str(record["ledger"])
                return "" if address in (self.address, inside) else address
        return ""
