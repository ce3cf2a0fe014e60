"""What keeps cells off machines, as commands show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchfleet.domain.placement import KeptOff, Placement
from benchfleet.placement import load_placement
from benchfleet.study import Study

_SHOWN = 10  # lines


def placing(study: Study, *, here: str = "") -> Placement:
    """What the ledger's reports and plans say, where there is a ledger; see `load_placement`."""
    return study.query(
        lambda ledger: load_placement(study.campaign, ledger, local_host=here), default=Placement()
    )


def lines(kept: Sequence[KeptOff], notes: Iterable[str] = ()) -> list[str]:
    """For people: each machine with what it may not have, and why."""
    shown = [f"  kept off {one.host}: {one}" for one in kept[:_SHOWN]]
    if len(kept) > _SHOWN:
        shown.append(f"  … and {len(kept) - _SHOWN} more; --json has them all")
    return [*shown, *(f"  {note}" for note in notes)]
