"""What `record` promises for a subject: of several who decide on the same history, one succeeds."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from benchfleet.domain.event import Event
from benchfleet.errors import Superseded
from benchfleet.testing.sample_cells import sample_cell

from .base import LEASE, LedgerFixture

SUBJECT = "rentals"


def _event(**data: object) -> Event:
    return Event(kind="rental_intended", fingerprint=SUBJECT, data=data)


class Subjects(LedgerFixture):
    """What `record` promises for a subject."""

    def _steps(self) -> list[object]:
        return [event.data["step"] for event in self.ledger.events(fingerprints=[SUBJECT])]

    def test_an_event_is_recorded_after_the_last_one_of_its_subject(self) -> None:
        self.enroll(sample_cell())  # an event of something else
        first = self.ledger.record(_event(step=1), after=0)
        self.ledger.record(Event(kind="host_drained"))
        self.one_claim()
        second = self.ledger.record(_event(step=2), after=first)
        assert second > first
        assert self._steps() == [1, 2]

    @pytest.mark.parametrize("after", ["none", "an earlier one", "one that never was"])
    def test_an_event_after_another_one_is_refused_and_not_kept(self, after: str) -> None:
        first = self.ledger.record(_event(step=1), after=0)
        second = self.ledger.record(_event(step=2), after=first)
        number = {"none": 0, "an earlier one": first, "one that never was": second + 1}[after]
        with pytest.raises(Superseded):
            self.ledger.record(_event(step=3), after=number)
        assert self._steps() == [1, 2]
        self.ledger.record(_event(step=4), after=second)

    def test_each_subject_has_its_own_order(self) -> None:
        first = self.ledger.record(_event(step=1), after=0)
        other = Event(kind="rental_intended", fingerprint="other", data={})
        self.ledger.record(other, after=0)
        self.ledger.record(_event(step=2), after=first)
        assert self._steps() == [1, 2]

    def test_another_handle_is_refused_what_it_has_not_read(self) -> None:
        first = self.ledger.record(_event(step=1), after=0)
        with closing(self.open_again(self.clock, LEASE)) as other:
            assert [event.seq for event in other.events(fingerprints=[SUBJECT])] == [first]
            second = other.record(_event(step=2), after=first)
            with pytest.raises(Superseded):
                self.ledger.record(_event(step=3), after=first)
            assert self._steps() == [1, 2]
            self.ledger.record(_event(step=4), after=second)

    def test_of_threads_that_append_at_once_one_succeeds(self) -> None:
        recorded: list[int] = []
        barrier = threading.Barrier(4)

        def append(number: int) -> None:
            barrier.wait()
            try:
                self.ledger.record(_event(step=number), after=0)
                recorded.append(number)
            except Superseded:
                pass

        threads = [threading.Thread(target=append, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(recorded) == 1
        assert self._steps() == recorded
