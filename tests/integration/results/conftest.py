"""An attempt of a cell in a results tree, what is sealed of it, and a campaign with results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Lease
from benchfleet.results.layout import Layout
from benchfleet.results.write import (
    AttemptFolder,
    Verdict,
)
from benchfleet.testing.sample_cells import sample_cell
from study import Study

CELL = sample_cell()
LEASE = Lease(fingerprint=CELL.fingerprint, attempt=1, token=1, expires_in=60)


def line(index: int, answer: str = "yes") -> bytes:
    record = {
        "index": index,
        "id": f"s{index}",
        "columns": {"question": 'What, "exactly",\nis it?'},
        "predicted_answer": answer,
    }
    return json.dumps(record).encode() + b"\n"


def verdict(*scores: float) -> Verdict:
    score = {"overall": 0.5, "per_sample": list(scores), "tasks": {"a": 1}, "summary": {}}
    return Verdict(score=score, seconds={"benchmark": 1.0}, provenance={"host": "here"})


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "study")


def sealed_folder(layout: Layout) -> tuple[Path, str]:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.record(line(1) + line(0, "an answer\nof two lines"))
    made = folder.seal(CELL, CELL.id, verdict(1.0, 0.0))
    return folder.folder, made.digest


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """A campaign with two results."""
    return Study(tmp_path / "study")
