"""What waits for the disk, what does not, and disks that take or keep nothing more."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.domain.event import Event
from benchfleet.errors import LedgerDamaged, LedgerUnreachable
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any
from states import states

from .conftest import CELLS, ME, SUCCESS, filled, open_ledger


def test_what_a_power_cut_may_take_back_is_claims_and_renewals_alone(tmp_path: Path) -> None:
    syncs: list[int] = []

    def synced() -> bool:
        """Whether the last commit waited for the disk."""
        waited = bool(syncs)
        syncs.clear()
        return waited

    with closing(open_ledger(tmp_path / "ledger.db", sync=syncs.append)) as ledger:
        ledger.enroll(CELLS[:3])
        assert synced()
        claims = claim_any(ledger, ME, 3)
        assert not synced()
        ledger.finish(claims[0].lease, SUCCESS)
        assert synced()
        ledger.renew([claims[1].lease])
        assert not synced()
        ledger.release([claims[1].lease], "given back")
        assert synced()
        ledger.renew([claims[2].lease])
        ledger.record(Event(kind="cancel_asked", fingerprint=claims[2].lease.fingerprint))
        assert synced()


def test_a_claim_does_not_wait_for_the_disk_of_a_finish(tmp_path: Path) -> None:
    waiting, goes_on = threading.Event(), threading.Event()

    def slow(log: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            waiting.set()
            assert goes_on.wait(30)
        os.fsync(log)

    with closing(open_ledger(tmp_path / "ledger.db", sync=slow)) as ledger:
        ledger.enroll(CELLS[:2])
        (claim,) = claim_any(ledger, ME)
        finishing = threading.Thread(target=ledger.finish, args=(claim.lease, SUCCESS))
        finishing.start()
        assert waiting.wait(30)
        assert len(claim_any(ledger, ME)) == 1
        assert finishing.is_alive()
        goes_on.set()
        finishing.join()


def test_a_disk_that_does_not_keep_what_was_written_is_reported(tmp_path: Path) -> None:
    def fails(log: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        ledger.enroll(CELLS[:1])
        assert ledger._group_commit is not None
        ledger._group_commit._sync = fails
        (claim,) = claim_any(ledger, ME)
        with pytest.raises(LedgerUnreachable, match="may not be durable"):
            ledger.finish(claim.lease, SUCCESS)
        ledger._group_commit._sync = os.fsync  # the kernel reports it only once
        with pytest.raises(LedgerUnreachable, match="may not be durable"):
            ledger.record(Event(kind="said", fingerprint=CELLS[0].fingerprint))


def test_finishes_that_wait_for_the_disk_are_synced_together(tmp_path: Path) -> None:
    syncs: list[int] = []
    waiting, goes_on = threading.Event(), threading.Event()

    def slow(log: int) -> None:
        syncs.append(sum(r.state == "success" for r in ledger.cells()))
        waiting.set()
        assert goes_on.wait(30)

    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        ledger.enroll(CELLS[:4])
        claims = claim_any(ledger, ME, 4)
        assert ledger._group_commit is not None
        ledger._group_commit._sync = slow
        first, *others = [
            threading.Thread(target=ledger.finish, args=(claim.lease, SUCCESS)) for claim in claims
        ]
        first.start()
        assert waiting.wait(30)
        for thread in others:
            thread.start()
        while states(ledger)["success"] < 4:
            time.sleep(0.01)
        assert all(thread.is_alive() for thread in (first, *others))
        goes_on.set()
        for thread in (first, *others):
            thread.join()
    assert syncs == [1, 4]


def test_a_full_disk_is_named_and_loses_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path / "ledger.db")
    with closing(open_ledger(path)) as ledger:
        pages = ledger._connection.execute("pragma page_count").fetchone()[0]
        ledger._connection.execute(f"pragma max_page_count = {pages}")
        with pytest.raises(LedgerUnreachable, match="make room on the disk") as caught:
            ledger.enroll(sample_cell(number, config="more") for number in range(500))
        assert not isinstance(caught.value, LedgerDamaged)
        assert states(ledger).total() == len(CELLS)
        ledger._connection.execute("pragma max_page_count = 100000")
        assert ledger.enroll([sample_cell(0, config="more")]) == 1


def test_a_claim_that_was_rolled_back_leaves_its_cells_free(tmp_path: Path) -> None:
    path = filled(tmp_path / "ledger.db")
    with closing(open_ledger(path)) as ledger, closing(open_ledger(path)) as other:
        claims = [*claim_any(ledger, ME, 10)]
        pages = ledger._connection.execute("pragma page_count").fetchone()[0]
        ledger._connection.execute(f"pragma max_page_count = {pages}")
        with pytest.raises(LedgerUnreachable, match="make room on the disk"):
            claim_any(ledger, ME, 400)
        ledger._connection.execute("pragma max_page_count = 100000")
        claims += claim_any(other, ME, 20)
        claims += claim_any(ledger, ME, len(CELLS))
    ended = 20
    assert len({claim.lease.fingerprint for claim in claims}) == len(claims) == len(CELLS) - ended


def test_another_writer_that_does_not_end_is_named(tmp_path: Path) -> None:
    path = filled(tmp_path / "ledger.db")
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as writer,
        closing(SqliteLedger(path, campaign="study", busy=0.0)) as ledger,
    ):
        writer.execute("begin immediate")
        with pytest.raises(LedgerUnreachable, match="another process has been writing") as caught:
            claim_any(ledger, ME)
        assert not isinstance(caught.value, LedgerDamaged)
        assert states(ledger).total() == len(CELLS)
        writer.execute("rollback")
        assert claim_any(ledger, ME)
