"""The contract of a place: where sealed results are kept for all hosts of a campaign.

A place keeps the folders of one campaign under their public paths, as a results folder does. A
result is there once its ``cell.json`` is: whoever reads sees all of a folder or nothing, also
where whoever put it died half way. What was put half is invisible and is put again from the
beginning.

Whoever fetches trusts nothing of it: `benchfleet.results.incoming_check` holds what came against
the ledger and its own seal before it becomes public.

A place subclasses `Place`. It is made from its URL and the campaign's name, is found in the
registry by the URL's scheme, and connects when it is first used. One thread at a time uses it.

Errors: `StoreUnreachable` where it may go well later, `ResultsError` where it is refused. Neither
shows credentials.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import cast

from benchfleet import registry

INCOMING = ".incoming"  # below the campaign's folder: what is not whole yet
REPLACED = ".replaced"  # what lay under the path of another result


class Place(registry.Plugin, ABC):
    """Where the results of one campaign are kept; see the module for the whole contract."""

    shown: str  # its URL as people may see it

    @abstractmethod
    def put(self, folder: Path, path: str, digest: str) -> None:
        """Put a sealed folder under its public path. Putting it again changes nothing; another
        result under the path, which the ledger calls done no longer, makes room."""

    @abstractmethod
    def there(self, paths: Collection[str]) -> Mapping[str, str]:
        """Of these paths, those with a result there, with the SHA-256 of its cell.json."""

    @abstractmethod
    def fetch(self, paths: Collection[str], into: Path) -> None:
        """Bring the folders that are there to ``into/<path>``, as plain files; `into` is empty.
        What is not there is passed over."""


def place_at(url: str, campaign: str) -> Place:
    """The place at this URL, for the results of one campaign; for ``""`` at the URL itself.

    Raises PluginError or ResultsError.
    """
    return cast(Place, registry.load("places", url.partition("://")[0])(url, campaign))
