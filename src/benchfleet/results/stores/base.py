"""The contract of a result store, which keeps sealed results for all hosts of a campaign.

A store keeps the folders of one campaign under their public paths, as a results folder does. A
result exists once its ``cell.json`` does: a reader sees the whole folder or nothing, even if the
upload was interrupted. A partial upload is invisible and starts again from the beginning.

A download is not trusted: `benchfleet.results.incoming_check` checks it against the ledger and
its own seal before it becomes public.

A store is created from its URL and the campaign's name, is found in the registry by the URL's
scheme, and connects when it is first used. It is used by one thread at a time.

Errors: `StoreUnreachable` if a retry may succeed, else `ResultsError`. Neither shows credentials.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import cast

from benchfleet import registry

INCOMING = ".incoming"  # below the campaign's folder: partial uploads
REPLACED = ".replaced"  # results that another one replaced


class ResultStore(registry.Plugin, ABC):
    """Keeps the results of one campaign; see the module for the whole contract."""

    display_url: str  # without credentials

    @classmethod
    def missing_module(cls, scheme: str) -> str:
        """The module that URLs of this scheme need and that is not installed; ``""`` for none."""
        return ""

    @abstractmethod
    def put(self, folder: Path, path: str, digest: str) -> None:
        """Upload a sealed folder to its public path. A repetition changes nothing; another result
        at the path, which the ledger no longer has, is moved aside."""

    @abstractmethod
    def digests(self, paths: Collection[str]) -> Mapping[str, str]:
        """The SHA-256 of the cell.json of each of these paths that has a result."""

    @abstractmethod
    def fetch(self, paths: Collection[str], into: Path) -> None:
        """Download the folders to ``into/<path>``, as plain files; `into` is empty. Missing ones
        are skipped."""

    def expect(self, digests: Mapping[str, str]) -> None:
        """Name the digest of each path's cell.json that the ledger has. A store that may have
        several results at one path, as branches do, gives that one from then on."""

    def check(self) -> None:
        """Ask for a result that does not exist. Raises what a store raises that does not answer."""
        self.digests(["no/such/cell"])

    def check_writable(self) -> None:
        """Raise ResultsError if nothing can be put there. A store that cannot find out cheaply,
        without leaving anything, does nothing."""

    def remove(self, path: str) -> None:
        """Remove the result at a path: of a part whose cell has its result now. A repetition
        changes nothing."""


def open_store(url: str, campaign: str) -> ResultStore:
    """The store at this URL for one campaign; for ``""`` at the URL itself.

    Raises PluginError or ResultsError.
    """
    return cast(ResultStore, registry.load("stores", url.partition("://")[0])(url, campaign))
