"""A ledger in git as its URL asks for it: told at once, or sparing a server that others use too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchfleet.ledger.git.address import address_of
from benchfleet.ledger.git.hosted import HostedLedger
from benchfleet.ledger.git.ledger import LEASE, GitLedger
from benchfleet.ledger.git.present import campaigns_at

_FRESH = 15.0  # seconds for which readers of a hosted repository go by what was seen


class OpenedGit:
    """Opens one; see `GitLedger` for what it takes."""

    carries_results = True
    usual_lease = LEASE

    def __new__(cls, url: str, **how: Any) -> Any:
        if not address_of(url).hosted:
            return GitLedger(url, **how)
        return HostedLedger(GitLedger(url, **{"fresh": _FRESH, **how}))

    @classmethod
    def campaigns(cls, url: str) -> Sequence[str]:
        """The campaigns whose ledgers are in the repository."""
        return campaigns_at(url)
