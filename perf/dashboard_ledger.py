"""The synthetic campaign that the dashboard is measured with, and what changes it meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.failure import Failure
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing import sample_cell

NAME = "study"


def create_ledger(root: Path, cells: int, ended: int) -> str:
    """A ledger with so many cells, of which some have ended; its address."""
    file = root / NAME / "ledger.db"
    file.parent.mkdir(parents=True)
    ledger = SqliteLedger(file, campaign=NAME)
    every = [
        sample_cell(
            benchmark % 10,
            model=f"model-{model}",
            config=f"config-{config}",
            subset=f"s{benchmark // 10}",
            repeat=repeat,
            repeats=True,
        )
        for model in range(10)
        for config in range(50)
        for benchmark in range(40)
        for repeat in range(5)
    ][:cells]
    ledger.enroll(every)
    names = [str(cell.fingerprint) for cell in every]
    for begin in range(0, ended, 500):
        turn(ledger, names[begin : min(begin + 500, ended)])
    ledger.close()
    return f"sqlite:///{file}"


def turn(ledger: SqliteLedger, names: Sequence[str]) -> None:
    """Claim and end these cells; one of twenty fails, for one of twelve causes."""
    claims = ledger.claim(RunnerId("runner"), names, len(names))
    outcomes = [
        failed(int(claim.lease.fingerprint[:6], 16))
        if n % 20 == 19
        else Outcome(
            state="success", digest="d", metrics={"overall_score": n % 100 / 100}, host="lab1"
        )
        for n, claim in enumerate(claims)
    ]
    ledger.finish_all([(one.lease, outcome) for one, outcome in zip(claims, outcomes, strict=True)])


def failed(number: int) -> Outcome:
    """A failure; its message has a number that differs each time."""
    cause = number % 12
    message = f"CUDA out of memory in block {chr(97 + cause)}: tried to allocate {number} MiB"
    return Outcome(
        state="failed",
        failure=Failure(stage="load" if cause % 2 else "benchmark", kind="oom", message=message),
        host=f"lab{number % 4}",
    )


def write(url: str, stop: threading.Event) -> None:
    """Change 200 cells a second: claim and end a hundred."""
    ledger = SqliteLedger(Path(url.removeprefix("sqlite:///")), campaign=NAME)
    names = [str(one.fingerprint) for one in ledger.cells(states=["pending"])]
    while names and not stop.is_set():
        began = time.monotonic()
        turn(ledger, names[:100])
        del names[:100]
        stop.wait(max(0.0, 1.0 - (time.monotonic() - began)))
    ledger.close()
