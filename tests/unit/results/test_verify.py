"""What `verify` says where the ledger took a cell.json that is not as its cell has it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.results.disk import digest_of
from benchfleet.results.verify import Finding, Verifier
from benchfleet.testing import sample_cell
from study import Study


def seen(study: Study, **changed: Any) -> Finding:
    """What is found where a cell.json, changed like this, is the one that the ledger took."""
    path = study.one
    file = study.folder(path) / "cell.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))
    record = study.record(path)
    assert record.outcome is not None
    taken = replace(record, outcome=replace(record.outcome, digest=digest_of(file)))
    found = Verifier(study.layout, [taken]).look(taken)
    assert found is not None
    assert (found.path, found.fingerprint) == (path, record.fingerprint)
    return found


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path / "study")


@pytest.mark.parametrize("changed", [{"cell": {}}, {"cell": None}, {"files": [1]}, {"cell": [1]}])
def test_a_cell_of_another_shape_is_of_a_newer_benchfleet(
    study: Study, changed: dict[str, Any]
) -> None:
    found = seen(study, **changed)
    assert found.kind == "newer"
    assert "cell.json is not as this benchfleet writes it" in found.message


def test_a_later_format_is_of_a_newer_benchfleet(study: Study) -> None:
    found = seen(study, format=99)
    assert found.kind == "newer"
    assert "results format 99" in found.message


def test_a_seal_whose_cell_has_another_fingerprint_is_foreign(study: Study) -> None:
    other = sample_cell(7)
    found = seen(study, cell=other.to_dict())
    assert found.kind == "foreign"
    assert f"of the cell {other.id} ({other.fingerprint[:8]})" in found.message


def test_a_seal_for_another_path_is_foreign(study: Study) -> None:
    found = seen(study, path=study.two)
    assert (found.kind, found.message) == ("foreign", f"it was sealed for {study.two}")
