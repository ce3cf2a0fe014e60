"""How long a ledger has failed without a break."""

from __future__ import annotations

from benchfleet.runner.outage import Outage


def test_an_outage_lasts_from_the_first_call_that_failed() -> None:
    outage = Outage()
    assert outage.seconds == 0.0
    outage.failed(10.0, 70.0, write=False)  # a call that hung for a minute
    assert outage.seconds == 60.0
    outage.failed(71.0, 72.0, write=True)
    assert outage.seconds == 62.0


def test_reads_that_succeed_end_no_outage_of_writes() -> None:
    outage = Outage()
    outage.failed(0.0, 0.0, write=True)
    outage.succeeded(write=False)
    outage.failed(50.0, 50.0, write=True)
    assert (outage.seconds, outage.answers) == (50.0, 1)
    outage.succeeded(write=True)
    assert (outage.seconds, outage.answers) == (0.0, 0)


def test_an_outage_of_reads_ends_with_the_next_read() -> None:
    outage = Outage()
    outage.failed(0.0, 9.0, write=False)
    outage.succeeded(write=False)
    assert outage.seconds == 0.0


def test_a_failure_after_a_minute_without_one_begins_another_outage() -> None:
    outage = Outage()
    outage.failed(0.0, 1.0, write=True)
    outage.failed(62.0, 63.0, write=True)
    assert outage.seconds == 1.0
