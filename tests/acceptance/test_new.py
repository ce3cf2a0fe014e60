"""What `benchfleet new` writes: its own test passes, and a campaign uses it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import benchfleet.results.stores
from benchfleet.cli.main import main
from recipe import Recipe
from tiny_models import saved_model

CAMPAIGN = """\
campaign: s
{more}
matrix:
  models: [{model}]
  configs: {{{config}}}
  benchmarks: [{benchmark}]
"""
DEFAULTS = {
    "model": "{name: m, adapter: mock}",
    "config": "dense: null",
    "benchmark": "mock_benchmark",
    "more": "",
}
USES = {
    "benchmark": {"benchmark": "my-part: {subsets: [easy], prefix: Say it.}"},
    "adapter": {"model": "{name: m, adapter: my-part, model: my-model}"},
    "attention": {
        "model": "{name: m, path: model, generation: {max_new_tokens: 2}}",
        "config": "a: {attention: {my-part: 8}}",
    },
    "policy": {"more": "placement: my-part"},
    "store": {
        "more": "results: 'my-part://{folder}/store'\nresult_cache: 'my-part://{folder}/cache'"
    },
    "provider": {},
    "exporter": {},
}


def installed(folder: Path) -> None:
    """Its entry point beside it, as an installer lays it out."""
    text = (folder / "pyproject.toml").read_text()
    found = re.search(r'^\[project.entry-points."(.+)"\]\n(.+)$', text, re.MULTILINE)
    assert found
    info = folder / "my_part-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-part\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[{found[1]}]\n{found[2].replace(chr(34), '')}\n")


@pytest.mark.parametrize("kind", USES)
def test_what_is_written_passes_its_test_and_is_used_by_a_campaign(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", kind, "my-part"]) == 0
    package = tmp_path / "my-part"
    installed(package)
    environment = {**os.environ, "PYTHONPATH": str(package)}

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    output = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "my-part")
    assert " passed" in output
    assert "skipped" not in output
    study = tmp_path / "study.yaml"
    text = CAMPAIGN.format(**{**DEFAULTS, **USES[kind]}).replace("{folder}", str(tmp_path))
    study.write_text(text)
    if kind == "attention":  # only a real model takes it
        saved_model(tmp_path / "model", "llama")
    if kind == "provider":  # of an inventory
        environment["MY_PART_KEY"] = "a key"
        (tmp_path / "machines.yaml").write_text('providers: {my-part: {key: "env:MY_PART_KEY"}}\n')
        words = ("offers", "--gpu", "RTX 4090", "--machines", "machines.yaml")
        assert "my-part" in run("-m", "benchfleet.cli.main", *words)
        return
    run("-m", "benchfleet.cli.main", "run", "study.yaml", "--cpu-slots", "1")
    if kind == "exporter":
        export = ("-m", "benchfleet.cli.main", "export", "study.yaml", "--to", "my-part=out")
        assert "my-part: 1 new" in run(*export)
        assert len(list((tmp_path / "out").glob("*.json"))) == 1
        assert "my-part: 1 unchanged" in run(*export)
    if kind == "store":
        assert list((tmp_path / "store").rglob("cell.json"))
        assert list((tmp_path / "cache").rglob("cell.json"))


def test_the_recipe_of_stores_has_the_steps_that_are_followed_above() -> None:
    steps = Recipe(benchfleet.results.stores).text  # it counts them
    written = (
        "`benchfleet new store my-lab` writes",
        "pip install pytest -e my-lab && python -m pytest my-lab",
    )
    assert all(words in steps for words in (*written, "`results: my-lab:///srv/results`"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["benchmark", "recall"], "benchmark 'recall' exists already"),
        (["benchmark", "../x"], "is no name"),
        (["store", "my_store"], "is no scheme of a URL"),
    ],
)
def test_a_name_that_cannot_be_is_refused(
    words: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", *words]) == 2
    assert why in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "policy", "mine"]) == 0
    (tmp_path / "mine" / "mine.py").write_text("# my work\n")
    assert main(["new", "policy", "mine"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "mine" / "mine.py").read_text() == "# my work\n"
