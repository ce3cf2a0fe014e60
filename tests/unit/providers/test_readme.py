"""The "add one" recipe of the family's README, followed to the letter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import benchfleet.providers
from benchfleet.cli.main import main
from recipe import Recipe

RECIPE = Recipe(benchfleet.providers)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path) -> Iterator[None]:
    with RECIPE.installed(tmp_path):
        yield


def test_a_provider_made_by_the_recipe_is_asked_for_its_offers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ONE_MACHINE_KEY", "a key")
    file = tmp_path / "machines.yaml"
    file.write_text(RECIPE.block("yaml"))
    assert main(["offers", "--gpu", "T4", "--machines", str(file)]) == 0
    assert "one-machine" in capsys.readouterr().out
    assert main(["offers", "--gpu", "H100", "--machines", str(file)]) == 1
