"""The text of a status."""

from __future__ import annotations

from dataclasses import replace

from benchfleet.cli.verbs.status import lines
from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.budget import Budget, Spending
from benchfleet.domain.cell import Fingerprint
from benchfleet.domain.failure import Failure
from benchfleet.domain.rental import RentalCost
from benchfleet.domain.state import STATES
from benchfleet.domain.usage import UsageTotal
from benchfleet.domain.worker_progress import SlotProgress, WorkerProgress, eta_of
from benchfleet.ledger.lease_holders import Holder
from benchfleet.status import Status, Unpublished

NOTHING = Status(
    campaign="study",
    has_ledger=True,
    counts={"total": 6, **dict.fromkeys(STATES, 0)},
    phases=(),
    kept_off=(),
    notes=(),
    holders=(),
    share=0.0,
    eta=None,
    kept_samples={},
    used=UsageTotal(),
    failed=(),
    elsewhere={},
    missing=(),
    unpublished=(),
    unsent=0,
    store="",
)


def record(path: str, **more: object) -> CellRecord:
    fields = {"id": path, "path": path, "attempt": 1, "tries": 1, "token": 1, **more}
    return CellRecord(fingerprint=Fingerprint(path), **fields)  # type: ignore[arg-type]


def text(**of: object) -> list[str]:
    return list(lines(replace(NOTHING, **of), lambda verb: f"benchfleet {verb}"))  # type: ignore[arg-type]


def test_a_quiet_campaign_is_one_line() -> None:
    counts = {**NOTHING.counts, "pending": 2, "success": 4}
    assert text(counts=counts) == ["study: 6 cells · 2 pending · 4 success"]


def test_a_budget_is_open_nearly_spent_or_spent() -> None:
    for attempts, expected in (
        (5, "50 % of the budget of 10 USD is spent"),
        (9, "90 % of the budget of 10 USD is spent; no cell begins once all is"),
        (11, "the budget of 10 USD is spent (11.00 USD); raise 'budget' and run again"),
    ):
        budget = Budget(amount=10, currency="USD", spending=Spending(attempts=attempts))
        assert text(budget=budget)[1:] == [f"  budget   {expected}"]


def test_what_rented_machines_cost_stands_beside_what_attempts_used() -> None:
    cost = RentalCost(currency="USD", cost=0.31, attempts=0.12)
    assert text(rentals=[cost])[1:] == [
        "  rentals  Rented machines: 0.310 USD, of which attempts 0.120 USD."
    ]
    assert replace(NOTHING, rentals=[cost]).to_dict()["rentals"] == [
        {"currency": "USD", "cost": 0.31, "attempts": 0.12}
    ]


def test_everything_out_of_order_is_named_with_its_way_out() -> None:
    held = Holder(
        record=record("a", state="running", runner="8f3a", expires_in=40), host="", since=0
    )
    oom = Outcome(
        state="failed", failure=Failure(stage="benchmark", kind="oom", message="no memory")
    )
    shown = text(
        counts={**NOTHING.counts, "running": 1, "failed": 1, "cancelled": 1, "success": 3},
        holders=[held],
        failed=[record("b", state="failed", outcome=oom)],
        unpublished=[Unpublished(path="c", blocked=True)],
        elsewhere={"d": "lab1"},
        missing=["e"],
        unsent=2,
        store="s3://bucket",
        unsent_to_cache=1,
        result_cache="rsync://lab/cache",
    )
    assert shown == [
        "study: 6 cells · 1 running · 3 success · 1 failed · 1 cancelled · 0 %",
        "  running  a  (runner 8f3a, lease good for 40 s)",
        f"  failed  b  {oom.why}",
        "why, and what to do: benchfleet failures",
        "try them again: benchfleet retry --failed",
        "1 cell is cancelled; bring it back: benchfleet retry --cancelled",
        "  waits    c  done; something else lies at its place: benchfleet verify",
        "results that are not here: 1 at lab1; bring them: benchfleet merge",
        "2 results wait for upload to s3://bucket; the next run does it",
        "1 result waits for upload to rsync://lab/cache; the next run does it",
        "  gone     e  done, but its results are not there",
        "run them again: benchfleet retry --gone",
    ]


def test_a_host_that_is_silent_is_named_with_the_command_that_frees_its_cells() -> None:
    assert text(silent={"lab 2": 1110.0})[1:] == [
        "no report from lab 2 for 18 min 30 s; if it is off, free its cells:",
        "  benchfleet release --host 'lab 2'",
    ]


def test_a_running_cell_shows_its_samples_and_how_old_that_is() -> None:
    slot = SlotProgress(
        devices="gpu:0",
        cell="a",
        stage="benchmark",
        done=31,
        total=90,
        seconds=40,
        tokens_per_second=412.4,
        memory=31_200_000_000,
        memory_total=80 * 10**9,
    )
    holder = Holder(
        record=record("a", state="running", runner="8f3a", expires_in=40), host="lab2", since=0
    )
    reports = [WorkerProgress(runner="8f3a", slots=(slot,), eta=80.0, age=12.0)]
    one = holder.with_progress(reports)
    assert holder.with_progress([]).progress is None
    assert holder.with_progress([replace(reports[0], runner="another")]).progress is None
    assert eta_of([replace(reports[0], age=90.0)], {"8f3a"}) is None  # it took longer
    counts = {**NOTHING.counts, "running": 1, "pending": 5}
    eta, clocks = eta_of(reports, {"8f3a"}), {"lab2": -300.0}
    assert text(counts=counts, holders=[one], share=0.0574, eta=eta, clocks=clocks) == [
        "study: 6 cells · 5 pending · 1 running · 5 % · ETA 1 min 08 s",
        "  running  a  (runner 8f3a on lab2, lease good for 40 s)",
        "           31 of 90 samples · 40 s · gpu:0 · 412 tok/s · 31.2/80 GB · seen 12 s ago",
        "  clock    lab2: its clock is 5 min 00 s behind this machine's; use NTP on both",
    ]


def test_samples_of_interrupted_cells_are_counted_and_few_are_listed() -> None:
    counts = {**NOTHING.counts, "pending": 7}
    shown = text(counts=counts, kept_samples=dict.fromkeys("abcdefg", 30) | {"a": 1})
    assert shown[1] == "  pending  a  1 sample kept"
    assert shown[6:] == [
        "           and 2 more cells with 60 samples kept",
        "continue after these samples: benchfleet run",
    ]
