"""What keeps cells off machines, as commands show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from benchfleet.domain.placement import KeptOff, Placement
from benchfleet.placement_loader import load_placement
from benchfleet.study import Study

_MAX_LISTED_HOSTS = 10  # lines


def placement_rules(
    study: Study, *, host: str = "", missing_data: Mapping[str, str] = {}
) -> Placement:
    """What the ledger's reports and plans say, where there is a ledger; see `load_placement`."""
    load = partial(load_placement, study.campaign, local_host=host, missing_data=missing_data)
    return study.query(load, default=load(None))


def lines(kept_off: Sequence[KeptOff], notes: Iterable[str] = ()) -> list[str]:
    """For people: each machine with what it may not have, and why."""
    text_lines = [f"  kept off {one.host}: {one}" for one in kept_off[:_MAX_LISTED_HOSTS]]
    if len(kept_off) > _MAX_LISTED_HOSTS:
        text_lines.append(f"  … and {len(kept_off) - _MAX_LISTED_HOSTS} more; --json has them all")
    return [*text_lines, *(f"  {note}" for note in notes)]
