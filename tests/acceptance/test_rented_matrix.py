"""The example of a matrix over rented GPUs: its 21 tests, and what its inventory may rent."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from benchfleet.campaign.inventory import load_inventory
from benchfleet.domain.hardware import Hardware
from benchfleet.rentals.entry_state import EntryState

from .conftest import User

EXAMPLE = Path(__file__).parents[2] / "examples" / "rented"
MODELS = "qwen2/1.5b", "qwen2/7b", "deepseek-r1/14b", "deepseek-r1/32b", "deepseek-r1/70b"


def test_the_plan_lists_its_21_tests(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine rows: six of three models, and three of one."""
    pulled = user.folder / "pulled"
    for model in MODELS:
        manifest = pulled / "manifests/registry.ollama.ai/library" / model
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_text(f'{{"model": "{model}"}}')
    monkeypatch.setenv("OLLAMA_MODELS", str(pulled))
    plan = user.json("plan", str(EXAMPLE / "matrix.yaml"), "--results", "r")
    cells = [one["cell"].split("/") for one in plan["cells"]]
    assert len(cells) == 21
    by_hardware = Counter(name.partition("+")[2] for _, _, name in cells)
    assert sorted(by_hardware.values()) == [1, 1, 1, 3, 3, 3, 3, 3, 3]
    assert [model for model, _, name in cells if name.endswith("h200-vast")] == ["deepseek-r1-70b"]


def test_its_inventory_rents_each_hardware_of_it() -> None:
    declared = yaml.safe_load((EXAMPLE / "matrix.yaml").read_text())["matrix"]["hardware"]
    entries = [EntryState(one) for one in load_inventory(EXAMPLE / "matrix_machines.yaml").rent]
    for hardware in (Hardware(**one) for one in declared):
        assert any(not hardware.unmet(machine) for one in entries for machine in one.machines)
