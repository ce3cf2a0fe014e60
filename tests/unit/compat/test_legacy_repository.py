"""Repositories of earlier tools, in the states in which their users left them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchfleet.compat.legacy_import import campaign_draft, summarize
from benchfleet.compat.legacy_repository import Repository, read_repository


def _result(folder: Path, name: str, **run: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps({"run": run, "success_rate": 0.5}))


def _repository(folder: Path) -> Repository:
    repository = read_repository(folder)
    assert repository is not None
    return repository


def test_a_model_is_found_under_the_keys_of_real_results(tmp_path: Path) -> None:
    settings = {"level": "easy", "model_team": "phi", "configuration": "rag"}
    _result(tmp_path / "runs", "easy_phi-local_rag_0.json", **settings)
    _result(tmp_path / "runs", "easy_phi-remote_rag_0.json", **settings)
    repository = _repository(tmp_path)
    assert [entry.parts for entry in repository.entries] == [
        ("easy", "phi-local", "rag", 0),
        ("easy", "phi-remote", "rag", 0),
    ]
    assert "models=['phi-local', 'phi-remote']" in campaign_draft(repository)


def test_the_summary_names_what_is_odd(tmp_path: Path) -> None:
    settings = {"level": "easy", "model": "phi", "configuration": "rag"}
    _result(tmp_path / "runs", "easy_phi_rag_0.json", **settings)
    _result(tmp_path / "runs", "hard_other_rag_0.json", **settings)
    (tmp_path / "phase").mkdir()
    (tmp_path / "phase" / "none.txt").write_text("")
    (tmp_path / "phase" / "one.txt").write_text("# a note\neasy_phi_rag_1.json\nwhat is this\n")
    summary = summarize(_repository(tmp_path))
    assert summary["entries"] == 4
    assert summary["empty phase lists"] == ["none"]
    assert summary["lines that are not result names"] == ["what is this"]
    assert summary["to do"] == ["easy_phi_rag_1.json"]
    assert summary["results whose content disagrees with their name"] == ["hard_other_rag_0.json"]


def test_a_listed_line_without_its_ending_is_that_name(tmp_path: Path) -> None:
    settings = {"level": "easy", "model": "phi", "configuration": "rag"}
    _result(tmp_path / "runs", "easy_phi_rag_0.json", **settings)
    (tmp_path / "phase").mkdir()
    lines = "easy_phi_rag_0\nhard_phi_rag_1\nhard_phi_rag_1.json\nsee level_3 first\n"
    (tmp_path / "phase" / "one.txt").write_text(lines)
    repository = _repository(tmp_path)
    summary = summarize(repository)
    assert summary["done, and still in a list"] == ["easy_phi_rag_0.json"]
    assert summary["to do"] == ["hard_phi_rag_1.json"]
    assert summary["lines that are not result names"] == ["see level_3 first"]
    assert repository.entries[1].parts == ("hard", "phi", "rag", 1)


def test_results_with_an_error_are_to_do(tmp_path: Path) -> None:
    settings = {"level": "easy", "model": "phi", "configuration": "rag"}
    for number in range(3):
        _result(tmp_path / "runs", f"easy_phi_rag_{number}.json", **settings)
    for number in (1, 2):
        failed = json.dumps({"run": settings, "error": "out of memory"})
        (tmp_path / "runs" / f"easy_phi_rag_{number}.json").write_text(failed)
    (tmp_path / "phase").mkdir()
    (tmp_path / "phase" / "one.txt").write_text("easy_phi_rag_0.json\neasy_phi_rag_1.json\n")
    summary = summarize(_repository(tmp_path))
    assert len(summary["errors that counted as done"]) == 2
    assert summary["to do"] == ["easy_phi_rag_1.json", "easy_phi_rag_2.json"]


def test_a_name_without_a_reading_is_an_open_question_of_the_draft(tmp_path: Path) -> None:
    (tmp_path / "phase").mkdir()
    (tmp_path / "phase" / "one.txt").write_text("a_b_c_0.json\n")
    draft = campaign_draft(_repository(tmp_path))
    assert "# Open question: which level, model and config is meant? (1 name)" in draft
    assert "#   'a_b_c_0.json'" in draft


def test_a_folder_that_merge_made_does_not_hide_the_data(tmp_path: Path) -> None:
    (tmp_path / "runs" / "phi").mkdir(parents=True)
    _result(
        tmp_path / "data" / "runs", "a_phi_rag_0.json", level="a", model="phi", configuration="rag"
    )
    assert _repository(tmp_path).root == tmp_path / "data"
