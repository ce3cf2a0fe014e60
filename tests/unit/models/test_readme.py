"""The "add one" recipe of the family's README, followed to the letter, and the identity of cells
whose adapter it makes.

It touches the disk: the package that the recipe makes is laid out in a temporary folder, as an
installer would.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import benchfleet.models
from benchfleet.campaign.load import load_campaign
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Cell, Config
from benchfleet.models.base import Prompt, adapter_class
from recipe import Recipe

RECIPE = Recipe(benchfleet.models)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path) -> Iterator[None]:
    with RECIPE.installed(tmp_path):
        yield


def cell(folder: Path, **changed: Any) -> Cell:
    """The cell of the recipe's campaign, its model kwargs changed."""
    (model,) = yaml.safe_load(RECIPE.block("yaml"))["models"]
    model["model_kwargs"].update(changed)
    matrix = {"models": [model], "benchmarks": ["mock_benchmark"]}
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump({"campaign": "study", "matrix": matrix}))
    (found,) = load_campaign(file).matrix.expand()
    return found


def test_an_adapter_made_by_the_recipe_is_checked_and_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, made = cell(tmp_path).model, adapter_class("served")
    sparse = Config(name="sparse", attention=(AttentionStep(name="sink"),))
    assert made.check(model, Config(name="dense")) is None
    assert "takes no attention configs" in str(made.check(model, sparse))

    def urlopen(request: Any, timeout: float) -> io.StringIO:
        asked = json.loads(request.data)["prompt"]
        return io.StringIO(json.dumps({"text": f"{request.full_url} {asked} {timeout}"}))

    adapter = made(model)
    monkeypatch.setattr(sys.modules[made.__module__], "urlopen", urlopen)
    adapter.load()
    (answer,) = adapter.answer([Prompt(context="Who?")], {})
    assert answer.text == "http://localhost:8000 Who? 60"


def test_the_same_server_at_another_address_makes_the_same_cell(tmp_path: Path) -> None:
    here = cell(tmp_path)
    there = cell(tmp_path, address="http://127.0.0.1:8000", timeout=5)
    assert there == here
    assert there.model.load_key != here.model.load_key  # an adapter that is loaded has an address
    assert Cell.from_dict(json.loads(json.dumps(there.to_dict()))).model == there.model
    assert cell(tmp_path, dtype="float32") != here


def test_a_new_version_of_an_adapter_makes_another_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = cell(tmp_path)
    monkeypatch.setattr(adapter_class("served"), "version", 2)
    assert cell(tmp_path) != before
