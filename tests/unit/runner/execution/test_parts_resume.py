"""What the first attempt at a part goes on after: what its whole cell had recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from benchfleet.domain.attempt import Claim, Lease
from benchfleet.domain.cell import Cell
from benchfleet.domain.part import Split
from benchfleet.engines.base import SlotId, SlotSpec
from benchfleet.results.layout import Layout
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.execution.attempt_recorder import AttemptRecorder
from benchfleet.testing import sample_cell


def indices_begun(layout: Layout, cell: Cell) -> list[int]:
    """The samples that the first attempt at a cell begins with."""
    host = SimpleNamespace(provenance=dict)
    context = SimpleNamespace(
        ledger=None, layout=layout, heartbeat=None, local_host=host, random=None
    )
    lease = Lease(fingerprint=cell.fingerprint, attempt=1, token=1, expires_in=60.0)
    attempt = AttemptRecorder(cast(RunnerContext, context)).make_attempt(
        Claim(lease=lease, cell=cell, path=cell.id, tries=0),
        spec=SlotSpec(slot=SlotId("a"), devices=(), threads=1, log=""),
        host="here", device="cpu", now=0.0, provenance={},
    )  # fmt: skip
    attempt.folder.close()
    return [json.loads(line)["index"] for line in attempt.recorded.splitlines()]


def record(layout: Layout, cell: Cell, indices: Sequence[int]) -> None:
    folder = layout.attempts_of(cell.fingerprint) / "1-1"
    folder.mkdir(parents=True)
    lines = [json.dumps({"index": index, "id": f"s{index}"}) + "\n" for index in indices]
    (folder / "samples.jsonl").write_text("".join(lines))


@pytest.mark.parametrize(
    ("recorded", "draws", "begun"),
    [
        ([0, 1, 2, 3], 1, [[0, 1, 2, 3], []]),
        ([0, 2, 4, 6], 2, [[0, 2, 4], [6]]),  # first answers to the first questions
        ([9, 1, 8, 5, -3], 1, [[1, -3], [9, 8, 5, -3]]),  # the longest first
    ],
)
def test_each_part_goes_on_after_the_samples_of_its_range(
    tmp_path: Path, recorded: list[int], draws: int, begun: list[list[int]]
) -> None:
    layout, whole = Layout(tmp_path), replace(sample_cell(), split=0)
    record(layout, whole, recorded)
    split = Split.of_rest(
        str(whole.fingerprint), 1, 1, 2, samples=10, recorded={*recorded}, draws=draws
    )
    parts = split.cells(whole)
    assert [indices_begun(layout, part) for part in parts] == begun


def test_every_part_gets_all_where_the_number_of_samples_is_not_known(tmp_path: Path) -> None:
    """Then the benchmark takes those of its range."""
    layout, whole = Layout(tmp_path), replace(sample_cell(), split=2)
    record(layout, whole, [0, 1, 2])
    parts = Split.evenly(str(whole.fingerprint), 1, 1, 2).cells(whole)
    assert [indices_begun(layout, part) for part in parts] == [[0, 1, 2], [0, 1, 2]]
