"""``batch_size: auto`` on the command line, with a real model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import User

MODEL = Path(__file__).parents[2] / "examples" / "recall" / "model"
STUDY = f"""\
campaign: s
defaults: {{batch_size: auto}}
matrix:
  models: [{{name: tiny, path: {MODEL}}}]
  benchmarks: [recall: {{subsets: 64, samples: 8}}]
"""


def test_a_batch_size_is_found_by_trying_recorded_and_remembered(user: User) -> None:
    user.write(STUDY)
    assert user.json("plan", "study.yaml")["counts"]["to_run"] == 1
    user.run("run", "study.yaml", "--cpu-slots", "1")
    (file,) = (user.folder / "benchmark_results").rglob("cell.json")
    provenance = json.loads(file.read_text())["provenance"]
    size = provenance["effective_batch_size"]
    assert size in (1, 2, 4, 8, 16, 32, 64)
    assert provenance["model"]["batch_size"] == size
    config = json.loads((file.parent / "config.json").read_text())
    assert config["batch_size"] == "auto"
    (remembered,) = (user.folder / ".cache" / "benchfleet" / "batch_sizes").iterdir()
    assert int(remembered.read_text()) >= size


def test_a_split_cell_has_the_size_and_the_peak_of_its_parts(user: User) -> None:
    pytest.importorskip("torch")
    user.write(STUDY)
    user.run("run", "study.yaml", "--cpu-slots", "1", "--split", "2")
    (file,) = (user.folder / "benchmark_results").rglob("cell.json")
    seal = json.loads(file.read_text())
    size = seal["provenance"]["effective_batch_size"]
    assert [part["effective_batch_size"] for part in seal["provenance"]["parts"]] == [size, size]
    (remembered,) = (user.folder / ".cache" / "benchfleet" / "batch_sizes").iterdir()
    assert size == int(remembered.read_text())
    assert seal["usage"]["ram"] > 100e6  # of a slot that had a model loaded
