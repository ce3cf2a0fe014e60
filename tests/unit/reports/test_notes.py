"""What the comparison notes and warns of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchfleet.domain.attempt import Outcome
from benchfleet.reports.grids import ended

from .conftest import Study, only


def test_missing_samples_are_distinguished_from_a_score_that_is_no_mean(study: Study) -> None:
    study.done("dense", [1, 0])
    study.done("window", [1, 1])
    study.samples.update({key: {} for key in study.samples})
    assert [note for note in study.compared().notes if "samples" in note] == [
        "Some samples are not here or were changed, so each repeat counts as one value: "
        "recall_512. `benchfleet merge` brings what another host or a store has, "
        "and `benchfleet verify` names what was changed."
    ]


def test_samples_without_a_score_are_noted(study: Study) -> None:
    study.done("dense", [1, 0], metrics={"unscored": 1})
    assert "Samples without a score count in no mean: recall_512." in study.compared().notes


def test_the_speed_of_a_server_has_no_answers_to_warn_of(study: Study) -> None:
    """Its requests are samples without scores, and are cut off by design."""
    ends = {"samples": 9, "ended_length": 1.0, "same_answer": 1.0}
    study.done("dense", [], headline=500.0, metrics=ends)
    assert len(study.compared().warnings) == 2
    study.records.clear()
    (cell,) = study.cells
    study.cells = [replace(cell, workload=replace(cell.workload, benchmark="serving"))]
    study.samples[study.cells[0].fingerprint] = {}
    outcome = Outcome(state="success", metrics={"overall_score": 500.0, **ends})
    study.record(study.cells[0], "success", outcome)
    found = study.compared()
    assert only(found).mean == 500.0
    assert found.warnings == ()
    assert ended(found) is None
    assert not any("not here" in note for note in found.notes)


def test_a_script_that_reports_no_samples_lacks_none(study: Study) -> None:
    study.done("dense", [], headline=0.5)
    study.done("window", [], headline=0.25)
    assert study.compared().notes == (
        "Without scores of samples, each repeat counts as one value: recall_512.",
    )


def test_a_config_that_leaves_out_no_key_anywhere_is_called_dense(study: Study) -> None:
    for subset, density in (("512", 1.0), ("1024", 0.5)):
        study.done("dense", [1, 0], subset=subset, metrics={"density": 1.0})
        study.done("window", [1, 0], subset=subset, metrics={"density": density})
        study.done("quest", [1, 0], subset=subset, metrics={"density": 1.0})
    (note,) = [note for note in study.compared().notes if "left out no key" in note]
    assert note.endswith("steps: tiny / quest.")


def test_results_of_different_machines_are_noted(study: Study) -> None:
    study.done("dense", [1, 0], host="lab1", device="gpu:0")
    study.done("window", [1, 0], host="lab1", device="gpu:1")
    assert study.compared().notes == ()
    study.done("sink", [1, 0], host="lab2", device="cpu:0")
    assert "lab1 (gpu), lab2 (cpu)" in study.compared().notes[0]


def test_a_machine_that_also_asks_a_server_is_one(study: Study) -> None:
    study.done("dense", [1, 0], host="lab1", device="cpu:0")
    study.done("window", [1, 0], host="lab1", device="endpoint:lab2:8000")
    assert study.compared().notes == ()
    study.done("sink", [1, 0], host="lab1", device="gpu:0")
    assert "2 kinds of device" in study.compared().notes[0]


def test_configs_that_have_fewer_samples_are_noted(study: Study) -> None:
    study.done("dense", [1, 0], repeat=0)
    study.done("dense", [1, 0], repeat=1)
    study.done("window", [1, 0], repeat=0)
    assert "fewer samples" in study.compared().notes[0]


def test_no_speed_is_shown_where_density_was_measured_beside_dense_attention(study: Study) -> None:
    timed = {"completion_tokens": 100, "seconds": 2.0}
    study.done("dense", [1.0, 0.0], metrics={**timed, "density": 1.0})
    study.done("window", [1.0, 0.0], metrics={**timed, "density": 0.1})
    study.done("bare", [1.0, 0.0], metrics=timed)
    compared = study.compared()
    speeds = {entry.config: entry.tokens_per_second for entry in compared.entries}
    assert speeds == {"dense": 50.0, "window": None, "bare": 50.0}
    assert [note for note in compared.notes if note.startswith("No speed is shown")]


def test_mode_fast_shows_its_speed_beside_its_density(study: Study) -> None:
    timed = {"completion_tokens": 100, "seconds": 2.0, "density": 0.1}
    study.done("window", [1.0, 0.0], metrics=timed, mode="fast")
    compared = study.compared()
    assert only(compared).tokens_per_second == 50.0
    assert only(compared).density == pytest.approx(0.1)
    assert not [note for note in compared.notes if note.startswith("No speed is shown")]


def test_notes_list_a_handful_of_names_and_no_empty_brackets(study: Study) -> None:
    for number in range(10):
        study.done("dense", [1.0, 0.0], subset=str(number), host=f"h{number}")
    [note] = study.compared().notes
    assert note.endswith("h0, h1, h2 and 7 more.")
