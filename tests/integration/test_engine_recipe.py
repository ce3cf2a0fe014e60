"""The "add one" recipe of the engines' README, followed to the letter."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import benchfleet.engines
from benchfleet import registry
from benchfleet.cli.main import main
from recipe import Recipe

RECIPE = Recipe(benchfleet.engines)
CAMPAIGN = """\
campaign: study
matrix:
  models: [{name: m, adapter: mock}]
  benchmarks: [mock_benchmark]
"""


def test_an_engine_made_by_the_recipe_runs_a_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    study = tmp_path / "study.yaml"
    with RECIPE.installed(tmp_path):
        study.write_text(CAMPAIGN + RECIPE.block("yaml").replace("minutes", "hours"))
        assert main(["run", str(study)]) == 2
        assert "minutes" in capsys.readouterr().err
        study.write_text(CAMPAIGN + RECIPE.block("yaml"))
        assert main(["run", str(study), "--cpu-slots", "1", "--json"]) == 0
    (cell,) = tmp_path.glob("benchmark_results/study/m/dense/mock_benchmark/cell.json")
    assert json.loads(cell.read_text())["provenance"]["device"] == "cpu:0"


def test_the_readme_lists_each_engine() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", RECIPE.text, re.MULTILINE)
    assert sorted(listed) == sorted(registry.names("engines"))
