"""Cells that hang, and samples of a results folder whose ledger is gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from .conftest import User

HANGING_MODEL = """\
campaign: study
defaults: {limits: {generation: 1s, tries: 1}, batch_size: 2}
matrix:
  models: [{name: m, adapter: mock, model_kwargs: {seconds: 3600}}]
  configs: {dense: null}
  benchmarks: [mock_benchmark]
"""
HANGING_ONCE = """\
campaign: study
defaults: {limits: {stuck: 5s}}
matrix:
  models: [{name: m, adapter: mock}]
  configs: {dense: null}
  benchmarks: [{_hostile: {samples: 9, act: hang, at: 5, once: %s}}]
"""
SCRIPT = """\
campaign: study
matrix:
  models: [{name: m, adapter: mock, model_kwargs: {answer: "7"}}]
  configs: {dense: null}
  benchmarks: [mock_benchmark, recall: {samples: 6, subsets: ["64"]}]
"""


def failures(user: User) -> list[dict[str, Any]]:
    found = (user.results / ".attempts").glob("*/*/failure.json")
    return [json.loads(file.read_text()) for file in found]


def test_a_call_of_the_model_that_hangs_ends_with_its_slot(user: User) -> None:
    user.write(HANGING_MODEL)
    user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
    (failure,) = failures(user)
    assert (failure["stage"], failure["kind"]) == ("benchmark", "timeout")
    assert "a call of the model with 2 prompts, the first that of sample 0," in failure["message"]
    assert "takes longer than its limit of 1 s (limits.generation)" in failure["message"]


def test_a_cell_that_is_stuck_goes_on_in_another_slot(user: User) -> None:
    user.write(HANGING_ONCE % (user.folder / "hung"))
    user.run("run", "study.yaml", "--cpu-slots", "1")
    (place,) = user.published()
    cell = json.loads((user.results / place / "cell.json").read_text())
    assert cell["provenance"]["attempt"] == 2
    assert cell["provenance"]["resumed_samples"] == 5
    samples = (user.results / place / "samples.jsonl").read_text().splitlines()
    assert [json.loads(sample)["index"] for sample in samples] == list(range(9))
    assert len({json.loads(sample)["columns"]["pid"] for sample in samples}) == 2


def samples_of(folder: Path) -> dict[str, str]:
    return {
        file.parent.relative_to(folder).as_posix(): file.read_text()
        for file in folder.glob("*/*/*/samples.jsonl")
    }


def test_samples_of_another_folder_are_taken_over_and_scored_again(user: User) -> None:
    user.write(SCRIPT)
    user.run("run", "study.yaml", "--cpu-slots", "1")
    whole = samples_of(user.results)
    lost = user.folder / "from-another-disk"
    shutil.move(user.results, lost)
    (lost / "ledger.db").unlink()
    torn = lost / "m/dense/recall_64/samples.jsonl"
    torn.write_text(torn.read_text() + "\n")
    output = user.run("run", "study.yaml", "--cpu-slots", "1", "--resume-from", str(lost)).stdout
    assert "imported 5 samples of 1 cell from from-another-disk" in output
    assert "recall_64: samples.jsonl is not as it was sealed" in output
    assert samples_of(user.results) == whole
    resumed = {
        path: json.loads((user.results / path / "cell.json").read_text())["provenance"]
        for path in user.published()
    }
    assert {path.rpartition("/")[2]: p["resumed_samples"] for path, p in resumed.items()} == {
        "mock_benchmark": 5,
        "recall_64": 0,
    }
    assert not list((user.results / ".attempts").glob("*/*"))


@pytest.mark.parametrize("file", ["execution_summary.json", "m/dense/recall_64/samples.jsonl"])
def test_a_checkpoint_file_is_resumed_from(user: User, file: str) -> None:
    user.write(SCRIPT)
    user.run("run", "study.yaml", "--cpu-slots", "1")
    whole = samples_of(user.results)
    lost = user.folder / "from-another-disk"
    shutil.move(user.results, lost)
    checkpoint = str(lost / file)
    output = user.run("run", "study.yaml", "--cpu-slots", "1", "--resume-from", checkpoint).stdout
    cells = "2 cells" if file.endswith(".json") else "1 cell"
    assert f" of {cells} from from-another-disk/{file}" in output
    assert samples_of(user.results) == whole
    resumed = json.loads((user.results / "m/dense/recall_64/cell.json").read_text())["provenance"]
    assert resumed["resumed_samples"] > 0


def test_a_file_that_is_no_checkpoint_is_refused_with_what_is_one(user: User) -> None:
    user.write(SCRIPT)
    user.write('{"step": 3}', "checkpoint.json")
    done = user.run("run", "study.yaml", "--resume-from", "checkpoint.json", code=2)
    assert "checkpoint.json is not a checkpoint: name a results folder, its exec" in done.stderr


def test_a_folder_that_is_not_there_is_reported_before_anything_runs(user: User) -> None:
    user.write(SCRIPT)
    done = user.run("run", "study.yaml", "--resume-from", "nowhere", code=2)
    assert "results folder nowhere not found; name the folder to resume from" in done.stderr
    assert not user.published()
