"""Opens the kind of git ledger that a URL asks for."""

from __future__ import annotations

from typing import Any

from benchfleet.ledger.git import push_queue
from benchfleet.ledger.git.address import address_of
from benchfleet.ledger.git.batched import BatchedLedger
from benchfleet.ledger.git.ledger import GitLedger

HOSTED_MAX_AGE_S = 15.0  # seconds for which the last pull of a hosted repository serves


class OpenedGit(GitLedger):
    """A `GitLedger`, or a `BatchedLedger` around it if others use the server too."""

    def __new__(cls, url: str, **options: Any) -> Any:
        if not address_of(url).hosted:
            return GitLedger(url, **options)
        inside = GitLedger(url, **{"max_age": HOSTED_MAX_AGE_S, **options})
        return BatchedLedger(inside, interval=push_queue.INTERVAL_S)
