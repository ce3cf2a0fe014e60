"""When a run gives an entry up, and with which reason."""

from __future__ import annotations

from benchfleet.domain.rent import RentEntry
from benchfleet.domain.rental import Account, Rental
from benchfleet.rentals.entry_state import LOOK_LIMIT_S, EntryState


def rental(stage: str = "ssh_wait", kind: str = "ssh_failed", message: str = "no route") -> Rental:
    failure = {"stage": stage, "kind": kind, "message": message}
    account = Account(provider="vast", url="", id="me")
    return Rental(id="aaaaaaaa", account=account, state="ended", failure=failure)


def state() -> EntryState:
    return EntryState(RentEntry(name="r4090", gpu="RTX 4090"))


def test_five_failures_in_a_row_end_it_by_the_first_reason() -> None:
    entry = state()
    entry.count_failure(rental(message="the first"))
    for _ in range(3):
        entry.count_failure(rental(kind="instance_stopped"))
    assert not entry.refused
    entry.count_failure(rental())
    assert entry.failure is not None
    assert (entry.failure.stage, entry.failure.kind) == ("provision", "ssh_failed")
    assert "5 rentals of r4090 failed in a row" in entry.refused
    assert "ssh_wait: the first" in entry.refused


def test_what_the_same_image_causes_three_times_is_enough() -> None:
    entry = state()
    for _ in range(3):
        entry.count_failure(rental("bootstrap", "unhealthy", "pip failed"))
    assert entry.failure is not None
    assert (entry.failure.stage, entry.failure.kind) == ("setup", "unhealthy")
    assert "see the image" in entry.refused


def test_a_rental_that_went_well_or_too_many_requests_are_no_failure() -> None:
    entry = state()
    good = Rental(id="a", account=Account(provider="vast", url="", id="me"), state="ended")
    entry.count_failure(good)
    entry.count_failure(rental(kind="rate_limited"))
    assert not entry.failures


def test_half_an_hour_without_an_offer_ends_it() -> None:
    entry = state()
    entry.found_nothing("nobody offers RTX 4090", 100.0)
    entry.found_nothing("nobody offers RTX 4090", 100.0 + LOOK_LIMIT_S)
    assert not entry.refused
    entry.found_nothing("nobody offers RTX 4090", 101.0 + LOOK_LIMIT_S)
    assert "within 30 min: nobody offers RTX 4090" in entry.refused
    assert entry.failure is not None
    assert entry.failure.kind == "no_capacity"
