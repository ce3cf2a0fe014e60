"""What the verbs promise for a split cell: a claim for each part, and the whole ends last."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from benchfleet.domain.attempt import Claim
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.part import FOLLOWED, Split, Splits
from benchfleet.errors import ClaimLost
from benchfleet.ledger.base import Ledger
from benchfleet.testing.sample_cells import sample_cell

from .base import LEASE, ME, OTHER, SUCCESS, LedgerFixture


def _splits_of(ledger: Ledger) -> Splits:
    splits = Splits()
    splits.follow(ledger.events(kinds=FOLLOWED))
    return splits


class Splitting(LedgerFixture):
    """What the verbs promise for a split cell: a claim for each part, and the whole ends last."""

    def split_cell(self, count: int = 2) -> tuple[Claim, Sequence[Cell]]:
        """The claim under which a cell was split, and the cells of its parts."""
        claim = self.running_cell()
        lease = claim.lease
        split = Split.evenly(lease.fingerprint, lease.attempt, lease.token, count)
        parts = split.cells(claim.cell)
        self.ledger.record(split.event(parts))
        self.ledger.release([lease], "it was split")
        self.enroll(*parts)
        return claim, parts

    def test_another_handle_derives_the_same_parts_and_shares_them(self) -> None:
        claim, parts = self.split_cell()
        whole = claim.lease.fingerprint
        (mine,) = self.ledger.claim(ME, [parts[0].fingerprint])
        with closing(self.open_again(self.clock, LEASE)) as other:
            split = _splits_of(other).current[whole]
            derived = split.cells(claim.cell)
            assert derived == parts
            assert other.enroll(derived) == 0  # they are there
            (theirs,) = other.claim(OTHER, [part.fingerprint for part in derived], 2)
            assert theirs.cell == parts[1]
            other.finish(theirs.lease, SUCCESS)
        self.ledger.finish(mine.lease, SUCCESS)
        names = [whole, *(part.fingerprint for part in parts)]
        states = [record.state for record in self.ledger.cells(fingerprints=names)]
        assert states == ["pending", "success", "success"]

    def test_parts_are_listed_on_request_alone(self) -> None:
        """After their cell, in the order of enrolment, and by state as other cells are."""
        claim, parts = self.split_cell()
        (mine,) = self.ledger.claim(ME, [parts[1].fingerprint])

        def listed(**which: Any) -> list[str]:
            return [record.fingerprint for record in self.ledger.cells(**which)]

        whole, names = claim.lease.fingerprint, [part.fingerprint for part in parts]
        assert listed() == [whole]
        assert listed(parts=True) == [whole, *names]
        assert listed(states=["running"]) == []
        assert listed(states=["running"], parts=True) == [names[1]]
        assert listed(fingerprints=[names[0]], parts=True) == [names[0]]
        with_cell = self.ledger.cells(with_cell=True, parts=True)
        assert [record.cell for record in with_cell] == [claim.cell, *parts]
        self.ledger.release([mine.lease], "the test has ended")

    def test_an_expired_part_goes_to_another_and_its_late_writer_is_fenced(self) -> None:
        claim, parts = self.split_cell()
        whole, names = claim.lease.fingerprint, [part.fingerprint for part in parts]
        late, other = self.ledger.claim(ME, names, 2)
        self.clock.advance(LEASE / 2)
        self.ledger.renew([other.lease])
        self.clock.advance(LEASE / 2)
        assert list(self.ledger.reap()) == [names[0]]  # no other part, and not the whole
        (newer,) = self.ledger.claim(OTHER, names, 2)
        assert newer.cell == parts[0]
        assert newer.lease.token > late.lease.token
        assert newer.tries == 0
        assert list(self.ledger.renew([late.lease, newer.lease])) == [newer.lease]
        with pytest.raises(ClaimLost):
            self.ledger.finish(late.lease, replace(SUCCESS, digest="late"))
        self.ledger.finish(newer.lease, SUCCESS)
        with pytest.raises(ClaimLost):
            self.ledger.finish(late.lease, replace(SUCCESS, digest="late"))
        self.ledger.finish(other.lease, SUCCESS)
        assert _splits_of(self.ledger).current.keys() == {whole}  # until the whole has ended
        (last,) = self.ledger.claim(OTHER, [whole])
        assert last.lease.token > claim.lease.token
        with pytest.raises(ClaimLost):
            self.ledger.finish(claim.lease, replace(SUCCESS, digest="late"))
        self.ledger.finish(last.lease, SUCCESS)
        records = self.ledger.cells(fingerprints=[whole, *names])
        assert [record.outcome for record in records] == [SUCCESS] * 3
        ended = [event.fingerprint for event in self.ledger.events(kinds={"finished"})]
        assert ended == [names[0], names[1], whole]
        assert not _splits_of(self.ledger).current

    def test_a_split_by_a_late_writer_does_not_count(self) -> None:
        """Its event is recorded, since anybody may record one; all readers pass it over."""
        late = self.running_cell().lease
        self.clock.advance(LEASE)
        self.ledger.reap()
        newer = self.one_claim(OTHER).lease
        cell = sample_cell()
        for lease, count in ((late, 2), (newer, 3)):
            split = Split.evenly(lease.fingerprint, lease.attempt, lease.token, count)
            self.ledger.record(split.event(split.cells(cell)))
        with closing(self.open_again(self.clock, LEASE)) as other:
            (split,) = _splits_of(other).current.values()
        assert (split.token, len(split.parts)) == (newer.token, 3)
        self.ledger.record(Event(kind="cancel_asked", fingerprint=newer.fingerprint))
        assert not _splits_of(self.ledger).current
