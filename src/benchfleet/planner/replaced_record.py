"""What a run of a campaign's file changes for workers that follow the ledger's record of it."""

from __future__ import annotations

from collections.abc import Iterator

from benchfleet.domain.campaign_record import CAMPAIGN_RECORDED, newest_record
from benchfleet.domain.humanize import examples
from benchfleet.study import Study

_BINDING = ("phases", "runners", "rules", "race", "results")  # what runs where, and where it goes


def replaced_record_warnings(study: Study) -> Iterator[str]:
    """A warning where the file that ran last says otherwise what workers may run: a second file of
    the same campaign, or a changed one."""
    record = study.campaign.record
    before = study.query(
        lambda ledger: newest_record(ledger.events(kinds={CAMPAIGN_RECORDED})), default=None
    )
    if record is None or before is None:
        return
    changed = [name for name in _BINDING if getattr(before, name) != getattr(record, name)]
    if not changed:
        return
    lost = {phase.name for phase in before.phases} - {phase.name for phase in record.phases}
    gates = f"; gates of {examples(sorted(lost))} hold nothing back then" if lost else ""
    yield (
        f"warning: the file of campaign {record.name} that ran last has other {examples(changed)}; "
        f"workers without a file follow this one once it runs{gates}"
    )
