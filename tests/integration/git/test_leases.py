"""Leases and heartbeats of a ledger in git, and the progress that comes with them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.worker_progress import SlotProgress, WorkerProgress
from benchfleet.errors import ClaimLost
from benchfleet.git.objects import Objects
from benchfleet.ledger.git import compaction, log
from benchfleet.testing import FakeClock
from benchfleet.testing.claims import claim_any
from repositories import git

from .conftest import CELLS, ME, SUCCESS, opened


def test_a_worker_whose_lease_was_taken_publishes_nothing(bare: Path) -> None:
    def files(objects: Objects, *_: object) -> dict[str, tuple[str, bool]]:
        return {"result": (objects.blob(b"of a zombie"), False)}

    clock = FakeClock()
    with (
        closing(opened(bare, "zombie", files=files, clock=clock, lease=60.0)) as zombie,
        closing(opened(bare, "other", clock=clock, lease=60.0)) as other,
    ):
        zombie.enroll(CELLS[:1])
        (held,) = claim_any(zombie, ME)
        other.pull()
        clock.advance(61.0)
        assert list(other.reap()) == [held.lease.fingerprint]
        assert len(claim_any(other, RunnerId("other"))) == 1
        with pytest.raises(ClaimLost):
            zombie.finish(held.lease, SUCCESS)
        assert list(zombie.renew([held.lease])) == []
    assert git(bare, "for-each-ref", "refs/heads") == ""


def test_a_heartbeat_that_others_see_begins_the_lease_again(bare: Path) -> None:
    clock = FakeClock()
    with (
        closing(opened(bare, "one", clock=clock, lease=60.0)) as one,
        closing(opened(bare, "two", clock=clock, lease=60.0)) as two,
    ):
        one.enroll(CELLS[:3])
        leases = [claim.lease for claim in claim_any(one, ME, 3)]
        two.pull()
        clock.advance(40.0)
        assert one.renew(leases[:2]) == leases[:2]
        two.pull()
        clock.advance(40.0)
        assert list(two.reap()) == [leases[2].fingerprint]
        assert one.renew(leases) == leases[:2]
        clock.advance(59.0)
        assert list(two.reap()) == []


@pytest.mark.parametrize("compacted", [False, True], ids=["logs", "snapshot"])
def test_others_measure_a_lease_by_the_setting_of_its_holder(
    bare: Path, monkeypatch: pytest.MonkeyPatch, compacted: bool
) -> None:
    clock = FakeClock()
    with closing(opened(bare, "patient", clock=clock, lease=600.0)) as patient:
        patient.enroll(CELLS[:2])
        renewed, left = (claim.lease for claim in claim_any(patient, ME, 2))
        if compacted:
            monkeypatch.setattr(compaction, "MIN_EVENTS", 1)
            patient.compact()
            assert git(bare, "for-each-ref", "refs/benchfleet/study/state") != ""
        with closing(opened(bare, "hasty", clock=clock, lease=60.0)) as hasty:
            clock.advance(590.0)
            assert list(hasty.reap()) == []
            assert list(patient.renew([renewed])) == [renewed]
            assert list(hasty.reap()) == []
            clock.advance(10.0)
            assert list(hasty.reap()) == [left.fingerprint]
            clock.advance(580.0)
            assert list(hasty.reap()) == []
            clock.advance(10.0)
            assert list(hasty.reap()) == [renewed.fingerprint]


def test_after_a_reboot_a_lease_begins_again_with_its_own_length(bare: Path) -> None:
    clock = FakeClock()
    with closing(opened(bare, "patient", clock=clock, lease=600.0)) as patient:
        patient.enroll(CELLS[:1])
        (held,) = claim_any(patient, ME)
        with closing(opened(bare, "hasty", clock=clock, lease=60.0)) as hasty:
            (hasty.store.folder / "boot").write_text("another start of the machine")
        with closing(opened(bare, "hasty", clock=clock, lease=60.0)) as hasty:
            clock.advance(599.0)
            assert list(hasty.reap()) == []
            clock.advance(1.0)
            assert list(hasty.reap()) == [held.lease.fingerprint]


@pytest.mark.parametrize("lease", [None, "long", -5.0, float("inf"), True], ids=str)
def test_a_claim_without_a_valid_lease_is_measured_by_the_observer_s_own(
    bare: Path, monkeypatch: pytest.MonkeyPatch, lease: object
) -> None:
    """An older benchfleet records none."""
    clock = FakeClock()
    changed = {} if lease is None else {"lease": lease}
    monkeypatch.setattr(log, "lease_data", lambda seconds: changed)
    with (
        closing(opened(bare, "older", clock=clock, lease=600.0)) as older,
        closing(opened(bare, "newer", clock=clock, lease=60.0)) as newer,
    ):
        older.enroll(CELLS[:1])
        (held,) = claim_any(older, ME)
        newer.pull()
        clock.advance(40.0)
        assert list(older.renew([held.lease])) == [held.lease]
        newer.pull()
        clock.advance(59.0)
        assert list(newer.reap()) == []
        clock.advance(1.0)
        assert list(newer.reap()) == [held.lease.fingerprint]


def test_the_progress_of_a_runner_arrives_on_another_host_with_its_heartbeat(bare: Path) -> None:
    clock, slot = FakeClock(), SlotProgress(devices="gpu:0", cell="a/b", done=31, total=90)
    report = WorkerProgress(runner=ME, slots=(slot,), eta=60.0)
    with closing(opened(bare, "one", clock=clock, wall=clock)) as one:
        one.enroll(CELLS[:1])
        (claim,) = claim_any(one, ME, 1)
        one.report_progress(report)
        one.renew([claim.lease])
        clock.advance(40)
        with closing(opened(bare, "late", clock=clock, wall=clock)) as late:
            assert list(late.progress()) == [replace(report, age=40.0)]


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
def test_the_progress_of_a_host_whose_clock_is_off_is_new_and_says_so(
    bare: Path, ahead: float
) -> None:
    clock = FakeClock()
    with (
        closing(opened(bare, "off", clock=clock, wall=lambda: clock() + ahead)) as off,
        closing(opened(bare, "two", clock=clock, wall=clock)) as two,
    ):
        off.enroll(CELLS[:1])
        (claim,) = claim_any(off, ME, 1)
        two.pull()
        clock.advance(10)
        off.report_progress(WorkerProgress(runner=ME, clock=1.0))
        off.renew([claim.lease])
        two.pull()
        (report,) = two.progress()
        assert report.age <= 10.0
        assert report.clock_ahead(clock()) == pytest.approx(ahead, abs=11)


def test_a_heartbeat_with_invalid_progress_still_renews(bare: Path, monkeypatch: Any) -> None:
    with closing(opened(bare, "one")) as one, closing(opened(bare, "two")) as two:
        one.enroll(CELLS[:1])
        (claim,) = claim_any(one, ME, 1)
        monkeypatch.setattr(WorkerProgress, "to_json", lambda self: "x" * 100_000)
        one.report_progress(WorkerProgress(runner=ME))
        assert one.renew([claim.lease]) == [claim.lease]
        assert [record.state for record in two.cells()] == ["running"]
        assert list(two.progress()) == []
