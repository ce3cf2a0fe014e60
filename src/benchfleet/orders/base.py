"""Who gives an order, and the key that lets it act once."""

from __future__ import annotations

import getpass
from collections.abc import Collection
from dataclasses import dataclass

from benchfleet.ledger.base import Ledger
from benchfleet.study import Study


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where an order comes from. A repeated order with the same `key` acts once."""

    by: str  # a person at a host
    key: str = ""  # "" for an order that cannot be repeated by accident

    def data(self) -> dict[str, str]:
        """What the order's event says of it."""
        return {"by": self.by, **({"key": self.key} if self.key else {})}

    @property
    def reason(self) -> str:
        """The reason of a release, which has no other place for it."""
        return f"released by {self.by}" + (f" [{self.key}]" if self.key else "")


def who(study: Study) -> str:
    """Who gives orders here: a person at a host."""
    try:
        return f"{getpass.getuser()}@{study.host}"
    except (OSError, KeyError, ImportError):  # a user that the system has no name for
        return study.host


def is_repeated(ledger: Ledger, kinds: Collection[str], origin: Origin) -> bool:
    """Whether an order with this key is in the ledger already."""
    if not origin.key:
        return False
    return any(
        event.data.get("key") == origin.key or event.data.get("reason") == origin.reason
        for event in ledger.events(kinds=kinds)
    )
