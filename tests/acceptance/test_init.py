"""From nothing to a first campaign."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from .conftest import User

MODEL = Path(__file__).parents[2] / "examples" / "recall" / "model"


@pytest.fixture
def cache(user: User, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hugging Face cache of this user's own, empty at first."""
    folder = user.folder / "hub"
    folder.mkdir()
    monkeypatch.setenv("HF_HUB_CACHE", str(folder))
    return folder


def _downloaded(cache: Path, name: str, commit: str) -> Path:
    """The demo's model as if it had been downloaded under this name."""
    repository = cache / f"models--{name.replace('/', '--')}"
    shutil.copytree(MODEL, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    return repository / "snapshots" / commit


def test_init_writes_a_campaign_that_plan_takes_and_run_runs(user: User, cache: Path) -> None:
    output = user.run("init").stdout
    assert "wrote campaign.yaml" in output
    assert "next: benchfleet plan campaign.yaml" in output
    assert user.json("plan")["counts"]["to_run"] == 3
    done = user.json("run", "--cpu-slots", "1")
    assert done["counts"]["success"] == 3


def test_models_of_the_local_cache_are_found(user: User, cache: Path) -> None:
    _downloaded(cache, "org/tiny", "c1")
    _downloaded(cache, "org/other", "c2")
    classifier = _downloaded(cache, "org/classifier", "c3") / "config.json"
    classifier.write_text(json.dumps({"architectures": ["BertForSequenceClassification"]}))
    torn = _downloaded(cache, "org/torn", "c4")
    (torn / "model.safetensors").unlink()
    found = user.json("init", "study.yaml")
    assert found["models"] == ["org/other", "org/tiny"]
    plan = user.json("plan", "study.yaml")
    assert plan["campaign"] == "study"
    assert plan["counts"]["impossible"] == 0
    assert {cell["cell"].split("/")[0] for cell in plan["cells"]} == {"org_other", "org_tiny"}


def test_a_model_too_large_for_the_machine_is_left_out_and_said(user: User, cache: Path) -> None:
    config = _downloaded(cache, "org/huge", "c1") / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_hidden_layers": 10**9}))
    assert user.json("init")["models"] == ["mock"]
    assert "fits here" in (user.folder / "campaign.yaml").read_text()
    user.run("plan", "campaign.yaml")


def test_a_file_that_exists_is_kept_by_default(user: User, cache: Path) -> None:
    file = user.write("mine", "campaign.yaml")
    assert "--yes overwrites it" in user.run("init", code=2).stderr
    assert file.read_text() == "mine"
    user.run("init", "--yes")
    assert file.read_text() != "mine"


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("study.toml", "ends in .yaml"),
        ("file/study.yaml", "cannot be written"),
        (".yaml", "ends in .yaml"),
    ],
)
def test_a_file_that_cannot_be_is_refused(user: User, cache: Path, name: str, part: str) -> None:
    user.write("", "file")
    assert part in user.run("init", name, code=2).stderr


def test_its_folder_is_made(user: User, cache: Path) -> None:
    user.run("init", "new/folder/study.yaml")
    assert user.json("plan", "new/folder/study.yaml")["campaign"] == "study"


def test_a_name_that_no_folder_can_bear_does_not_become_the_campaign_s(
    user: User, cache: Path
) -> None:
    user.run("init", "...yaml")
    assert user.json("plan", "...yaml")["campaign"] == "study"


@pytest.mark.usefixtures("without_torch")
def test_without_the_extra_the_mock_is_offered_with_what_to_install(
    user: User, cache: Path
) -> None:
    _downloaded(cache, "org/tiny", "c1")
    assert user.json("init")["models"] == ["mock"]
    text = (user.folder / "campaign.yaml").read_text()
    assert "pip install 'benchfleet[hf]'" in text
    user.run("plan", "campaign.yaml")


def test_the_schema_is_printed_for_editors(user: User) -> None:
    schema = user.json("schema")
    assert user.run("schema").stdout == user.run("schema", "--json").stdout
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "mock_benchmark" in schema["$defs"]["benchmarks"]["enum"]
