"""How results come to their disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchfleet.domain.attempt import CellRecord
from benchfleet.results.cache import ResultCache
from benchfleet.results.publish import PublishAll, publish_all
from benchfleet.results.write import AttemptFolder, SealAll, seal_all
from benchfleet.runner.disk_guard import UNLIMITED, DiskSpace

Background = Callable[[Callable[[], None]], object]  # runs what it is given soon


def at_once(work: Callable[[], None]) -> None:
    """Write while everything else waits."""
    work()


def unlimited() -> DiskSpace:
    """Where nobody looks."""
    return UNLIMITED


def fetch_nothing(records: Sequence[CellRecord]) -> None:
    """Where no other place has results."""


@dataclass(frozen=True, kw_only=True)
class ResultStorage:
    """The disk that results go to, and who writes there: by default a real one, at once."""

    disk_space: Callable[[], DiskSpace] = unlimited
    folder: Callable[[Path], AttemptFolder] = AttemptFolder  # makes an attempt's folder
    seal_all: SealAll = seal_all  # completes some of them
    publish_all: PublishAll = publish_all  # gives them their public paths
    background: Background = at_once  # writes and syncs, here or in another thread
    # brings results of other hosts into this folder, as far as the campaign's place has them
    fetch: Callable[[Sequence[CellRecord]], None] = fetch_nothing
    cache: ResultCache | None = None  # from which results are taken before cells run
