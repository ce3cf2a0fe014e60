"""``benchfleet export``: sealed results for other tools, each once; what is missing is named."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet import registry
from benchfleet.cli.main import main
from benchfleet.exporters.base import Exporter

from .conftest import User

STUDY = """\
campaign: study
matrix:
  models: [{name: m, adapter: mock, model_kwargs: {answer: "Ada Brandt"}}]
  configs: {dense: null}
  benchmarks: [mock_benchmark, recall: {subsets: [64], samples: 4}]
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a campaign whose first benchmark was run."""
    user = User(tmp_path_factory.mktemp("study"))
    user.write(STUDY)
    user.run("run", "study.yaml", "--cpu-slots", "1", "--only", "benchmarks=mock_benchmark")
    return user.folder


def test_a_campaign_is_exported_once_and_what_is_missing_is_named(exported: Path) -> None:
    user = User(exported)
    words = ("export", "study.yaml", "--to", "lm_eval=out", "--to", "every_eval_ever")
    first = user.run(*words)
    assert "lm_eval: 1 new; at out" in first.stdout
    assert "every_eval_ever: 1 new; at study-every_eval_ever" in first.stdout
    assert "not exported: 1 pending" in first.stderr
    assert "m/dense/recall_64: pending" in first.stderr
    files = {file: file.stat().st_mtime_ns for file in (exported / "out").rglob("*.json*")}
    (result,) = (json.loads(file.read_text()) for file in files if file.name.startswith("results_"))
    assert result["results"]["mock_benchmark"]["score,none"] == 0.2

    (entry, _) = json.loads(user.run(*words, "--json").stdout)
    assert (entry["exporter"], entry["new"], entry["unchanged"]) == ("lm_eval", 0, 1)
    assert {file: file.stat().st_mtime_ns for file in files} == files


def test_a_result_that_runs_again_replaces_the_exported_one(exported: Path, tmp_path: Path) -> None:
    user = User(tmp_path / "again")
    shutil.copytree(exported, user.folder)
    words = ("export", "study.yaml", "--to", "lm_eval=again")
    assert "1 new" in user.run(*words).stdout
    before = {file.name for file in (user.folder / "again").rglob("*.json*")}
    (user.folder / "benchmark_results/study/m/dense/mock_benchmark/metrics.json").unlink()
    user.run("verify", "study.yaml", "--repair", "--yes", code=None)  # the cell has to run again
    user.run("run", "study.yaml", "--cpu-slots", "1", "--only", "benchmarks=mock_benchmark")
    assert "lm_eval: 1 replaced" in user.run(*words).stdout
    after = {file.name for file in (user.folder / "again").rglob("*.json*")}
    assert len(before) == len(after)
    assert before != after


def test_a_result_that_is_not_as_sealed_is_not_exported(exported: Path, tmp_path: Path) -> None:
    user = User(tmp_path / "damaged")
    shutil.copytree(exported, user.folder)
    file = user.folder / "benchmark_results/study/m/dense/mock_benchmark/samples.jsonl"
    file.write_text(file.read_text().replace("Ada Brandt", "Ingham"))
    done = user.run("export", "study.yaml", "--to", "lm_eval=damaged", code=1)
    assert "no results" in done.stdout
    assert "samples.jsonl is not as it was sealed" in done.stderr
    shutil.rmtree(file.parent)
    done = user.run("export", "study.yaml", "--to", "lm_eval=damaged", code=1)
    assert "its folder is not here; `benchfleet merge CAMPAIGN` fetches" in done.stderr
    assert not (user.folder / "damaged").exists()


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("lm_evl", "no exporter 'lm_evl'; did you mean 'lm_eval'?"),
        ("mlflow", "mlflow has no address; write --to mlflow=http://127.0.0.1:5000"),
        ("hub_dataset=hf://me/x", "invalid dataset 'hf://me/x': use hf://datasets/OWNER/NAME"),
        ("model_card=hf://me", "invalid model 'hf://me': use hf://OWNER/NAME"),
    ],
)
def test_a_wrong_destination_is_refused(exported: Path, to: str, message: str) -> None:
    done = User(exported).run("export", "study.yaml", "--to", to, code=2)
    assert message in done.stderr


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("lm_eval=study.yaml", "study.yaml is not a folder"),
        ("mlflow=http://me:secret@127.0.0.1:9", "mlflow at http://127.0.0.1:9: "),
        ("mlflow=sqlite:///half.db", "mlflow at sqlite:///half.db: OperationalError: "),
    ],
)
def test_an_exporter_that_fails_takes_a_line_and_the_others_go_on(
    exported: Path, to: str, message: str, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(exported / "half.db")) as database:
        # As MLflow leaves it if its first migration is interrupted.
        database.execute("CREATE TABLE IF NOT EXISTS registered_models (name TEXT)")
    words = ("export", "study.yaml", "--to", to, "--to", f"lm_eval={tmp_path / 'out'}")
    done = User(exported).run(*words, code=1)
    assert f"benchfleet: {message}" in done.stderr
    assert "lm_eval: 1 new" in done.stdout
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr
    again = User(exported).run(*words, "--json", code=1)
    failed, unchanged = json.loads(again.stdout)
    assert failed["error"].startswith(message)
    assert unchanged["unchanged"] == 1


def test_files_of_an_mlflow_database_lie_beside_it(exported: Path, tmp_path: Path) -> None:
    user, database = User(tmp_path / "elsewhere"), tmp_path / "kept" / "ml.db"
    shutil.copytree(exported, user.folder)
    database.parent.mkdir()
    for to in (f"mlflow=sqlite:///{database}", "mlflow=sqlite:///../kept/other.db"):
        assert "mlflow: 1 new" in user.run("export", "study.yaml", "--to", to).stdout
    assert len([*database.parent.glob("mlruns/study/*/artifacts/samples.jsonl")]) == 2
    assert not (user.folder / "mlruns").exists()


def test_an_error_of_any_library_is_one_line(
    exported: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(exporter: Exporter) -> None:
        raise RuntimeError("no room\nin the library")

    monkeypatch.setattr(registry.load("exporters", "lm_eval"), "digests", fail)
    monkeypatch.chdir(exported)
    assert main(["export", "study.yaml", "--to", "lm_eval=other"]) == 1
    assert capsys.readouterr().err == "benchfleet: other: RuntimeError: no room\n"


@pytest.mark.parametrize("name", registry.names("exporters"))
def test_a_package_that_is_absent_is_named_with_its_extra(
    exported: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kind = registry.load("exporters", name)
    if not kind.requires:
        return  # it writes JSON
    monkeypatch.setattr(registry, "find_spec", lambda package: None)
    monkeypatch.chdir(exported)
    assert main(["export", "study.yaml", "--to", name]) == 2
    assert f"pip install 'benchfleet[{kind.extra}]'" in capsys.readouterr().err
