"""What came from elsewhere becomes public only if it is the result that the ledger has."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchfleet.results.disk import digest_of
from benchfleet.results.incoming_check import has_arrived, refusal
from benchfleet.testing import sample_cell
from study import Study


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path / "study")


def refused(study: Study, **changed: Any) -> str:
    """What is reported of a result whose cell.json, changed like this, is the one of the ledger."""
    file = study.folder(study.one) / "cell.json"
    content = {**json.loads(file.read_text()), **changed}
    kept = {name: value for name, value in content.items() if value != "absent"}
    file.write_text(json.dumps(kept))
    fingerprint = study.record(study.one).fingerprint
    return refusal(study.layout.root, study.one, fingerprint, digest_of(file))


def test_the_result_of_the_ledger_is_taken(study: Study) -> None:
    assert refused(study) == ""
    other = study.record(study.two).fingerprint
    digest = digest_of(study.folder(study.one) / "cell.json")
    assert "is of another cell" in refusal(study.layout.root, study.one, other, digest)
    assert "is not the one that the ledger has" in refusal(
        study.layout.root, study.one, other, "0" * 64
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"fingerprint": "0" * 64},
        {"cell": sample_cell(9).to_dict()},
        {"cell": "absent"},
        {"cell": []},
        {"cell": {}},
    ],
    ids=["fingerprint", "other", "absent", "list", "empty"],
)
def test_a_seal_of_another_cell_is_refused(study: Study, changed: dict[str, Any]) -> None:
    assert refused(study, **changed) == "its cell.json is of another cell"


@pytest.mark.parametrize("files", ["absent", None, 3, [], ["log.txt"]], ids=str)
def test_a_seal_without_digests_is_refused(study: Study, files: Any) -> None:
    assert refused(study, files=files) == "its cell.json is none of benchfleet"


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "a\\b", "", "a\0"])
def test_a_seal_that_names_files_elsewhere_is_refused(study: Study, name: str) -> None:
    assert "which is not a file of its folder" in refused(study, files={name: "0" * 64})


def test_a_changed_file_is_refused_and_one_that_is_absent(study: Study) -> None:
    (study.folder(study.one) / "metrics.json").write_text("{}")
    assert "metrics.json is not as it was sealed" in refused(study)
    (study.folder(study.one) / "metrics.json").unlink()
    assert "metrics.json is missing" in refused(study)


def test_a_link_on_the_way_is_refused(study: Study, tmp_path: Path) -> None:
    above = study.folder(study.one).parent
    shutil.move(above, tmp_path / "elsewhere")
    above.symlink_to(tmp_path / "elsewhere")
    assert refused(study) == f"{above.relative_to(study.layout.root)} is a link"
    assert has_arrived(study.layout.root, study.one)
    assert not has_arrived(study.layout.root, "no/such/cell")
