"""When the test of a shared ledger's locks is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.cli.shared import slurm_locks
from benchfleet.errors import LedgerError
from benchfleet.ledger.sqlite.lock_test import NOT_AT_ONCE
from benchfleet.slurm.script import PilotSpec


@pytest.mark.parametrize(
    ("results", "tests", "passes"),
    [
        ([[NOT_AT_ONCE], []], 2, True),
        ([[NOT_AT_ONCE]] * 4, 3, False),
        ([["of 180 additions 3 were lost", NOT_AT_ONCE], []], 1, False),
    ],
)
def test_machines_that_took_no_turns_are_tested_again(
    results: list[list[str]],
    tests: int,
    passes: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared: list[Path] = []
    waiting = list(results)
    monkeypatch.setattr(slurm_locks, "_tested", lambda *_: (waiting.pop(0), ["n1", "n2"]))
    monkeypatch.setattr(slurm_locks, "share", lambda ledger, machines: shared.append(ledger))
    spec = PilotSpec(name="bf", command=["true"], folder=tmp_path, logs=tmp_path, time="10")
    ledger = tmp_path / "ledger.db"
    if passes:
        slurm_locks.share_ledger(ledger, spec, "")
    else:
        with pytest.raises(LedgerError, match="cannot be shared"):
            slurm_locks.share_ledger(ledger, spec, "")
    assert (len(results) - len(waiting), bool(shared)) == (tests, passes)
