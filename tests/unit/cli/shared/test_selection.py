"""The cells that a verb is to care for."""

from __future__ import annotations

import argparse

import pytest

from benchfleet.cli.shared import selection
from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.failure import Failure, Kind
from benchfleet.testing.sample_cells import sample_cell


def failure(kind: Kind | None) -> Failure | None:
    return Failure(stage="benchmark", kind=kind, message="") if kind else None


def record(number: int, kind: Kind | None = None, *, first: Kind | None = None) -> CellRecord:
    cell = sample_cell(number, version="2")
    outcome = Outcome(state="failed", failure=failure(kind), first=failure(first))
    return CellRecord(
        fingerprint=cell.fingerprint,
        id=cell.id,
        path=cell.path(marked=True),
        state="failed",
        attempt=1,
        tries=1,
        token=1,
        outcome=outcome if kind else None,
    )


RECORDS = [record(0), record(1, "oom"), record(2, "slot_lost", first="oom"), record(3, "timeout")]


def chosen(*words: str) -> list[int]:
    parser = argparse.ArgumentParser()
    selection.configure(parser, example="")
    found = selection.selected(parser.parse_args(["study.yaml", *words]), RECORDS)
    return [RECORDS.index(one) for one in found]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ([], [0, 1, 2, 3]),
        (["--kind", "oom"], [1, 2]),
        (["--kind", "slot_lost"], []),
        (["--kind", "oom", "--kind", "timeout"], [1, 2, 3]),
        (["--cell", "tiny/dense/benchmark-3"], [3]),
        (["--cell", "tiny/dense/benchmark-3@*"], [3]),
        (["--cell", "*-0", "--cell", "*-1"], [0, 1]),
        (["--cell", "*-[12]", "--kind", "oom"], [1, 2]),
        (["--cell", "nothing"], []),
        (["--cell", "!*-[12]"], [0, 3]),
        (["--cell", "tiny/*", "--cell", "!*-0"], [1, 2, 3]),
    ],
)
def test_cells_are_chosen_by_their_first_reason_and_by_name(
    words: list[str], numbers: list[int]
) -> None:
    assert chosen(*words) == numbers


def test_a_kind_that_there_is_not_is_refused_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        chosen("--kind", "cosmic_ray")
    assert "slot_lost" in capsys.readouterr().err
