"""Access to files that people edit in a shared repository, at the pace that it allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchfleet.git.objects import Objects
from benchfleet.git.remote import Remote


@dataclass(frozen=True, kw_only=True)
class SharedFiles:
    """A remote, a local repository for its objects, and when to look and push."""

    remote: Remote
    objects: Objects
    every: Callable[[], float]  # seconds between two looks
    wait_to_push: Callable[[], None]  # until the repository may get a push
    shallow: bool = True  # the local repository is ours, and needs no history
