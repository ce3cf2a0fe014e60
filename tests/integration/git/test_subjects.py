"""Events of a subject over a repository: every installation sees them in one order."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.domain.event import Event
from benchfleet.errors import Superseded
from benchfleet.ledger.git import snapshot
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.testing import sample_cell
from repositories import git

from .conftest import opened

SUBJECT = "rentals"


def _append(ledger: GitLedger, step: int, after: int) -> int:
    event = Event(kind="rental_intended", fingerprint=SUBJECT, data={"step": step})
    return ledger.record(event, after=after)


def _read(ledger: GitLedger) -> tuple[list[int], int]:
    ledger.pull()
    events = ledger.events(fingerprints=[SUBJECT])
    return [event.data["step"] for event in events], events[-1].seq if events else 0


def test_an_installation_that_has_not_read_the_last_event_is_refused(bare: Path) -> None:
    with closing(opened(bare, "one")) as one, closing(opened(bare, "two")) as two:
        two.record(Event(kind="host_drained"))  # so that their events have other numbers
        assert _read(two) == ([], 0)
        first = _append(one, 1, 0)
        with pytest.raises(Superseded):
            _append(two, 2, 0)
        steps, last = _read(two)
        assert steps == [1]
        _append(two, 3, last)
        with pytest.raises(Superseded):
            _append(one, 4, first)
        _append(one, 5, _read(one)[1])
        assert _read(one)[0] == _read(two)[0] == [1, 3, 5]


def test_a_newcomer_with_a_snapshot_goes_on_after_the_last_event(bare: Path) -> None:
    with closing(opened(bare, "one")) as one:
        one.enroll([sample_cell()])
        _append(one, 2, _append(one, 1, 0))
        one.run([lambda do: do.record(Event(kind="noted"))] * snapshot.MIN_EVENTS)
        one.compact()
        assert "study/state" in git(bare, "for-each-ref", "--format=%(refname)")
        with closing(opened(bare, "two")) as two:
            with pytest.raises(Superseded):
                _append(two, 3, 0)
            steps, last = _read(two)
            assert steps == [1, 2]
            _append(two, 3, last)
            assert _read(one)[0] == [1, 2, 3]
