"""Models that scripts open by themselves, with the adapter `none`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.domain.cell import Model
from benchfleet.errors import CellFailure
from benchfleet.models.none import NoAdapter
from benchfleet.testing.sample_cells import sample_cell


def model_at(path: Path) -> Model:
    plain = sample_cell(source=str(path), digest=NoAdapter.digest(str(path))).model
    return replace(plain, adapter="none")


def test_a_script_gets_the_path_of_weights_that_are_as_they_were(tmp_path: Path) -> None:
    weights = tmp_path / "weights.bin"
    weights.write_text("1")
    for path in (weights, tmp_path):
        assert NoAdapter.fetch(model_at(path)) == path


def test_a_script_never_measures_weights_that_changed_since_the_campaign_was_read(
    tmp_path: Path,
) -> None:
    weights = tmp_path / "weights.bin"
    weights.write_text("1")
    models = [model_at(weights), model_at(tmp_path)]
    weights.write_text("2")
    for model in models:
        with pytest.raises(CellFailure, match="has changed since the campaign was read") as failed:
            NoAdapter.fetch(model)
        assert (failed.value.stage, failed.value.kind) == ("load", "user_error")
    weights.unlink()
    with pytest.raises(CellFailure, match="is not there"):
        NoAdapter.fetch(models[0])


def test_a_model_that_is_only_a_name_is_passed_on_as_it_is() -> None:
    assert NoAdapter.fetch(sample_cell(source="my-model", digest="name:my-model").model) is None
