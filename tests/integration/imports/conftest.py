"""A folder that tests work in, a campaign there, and what an import into it says and leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchfleet.cli.main import main

CAMPAIGN = """\
campaign: study
matrix:
  models: [{model}]
  configs: {{{configs}}}
  benchmarks: [{benchmarks}]
"""


def campaign(folder: Path, model: str, benchmarks: str, configs: str = "dense: null") -> Path:
    file = folder / "study.yaml"
    file.write_text(CAMPAIGN.format(model=model, benchmarks=benchmarks, configs=configs))
    return file


def sums_campaign(folder: Path) -> Path:
    """With one benchmark, a script called ``sums``."""
    (folder / "sums.py").write_text("")
    script = "command: {name: sums, argv: [python, sums.py, '{result}'], files: [sums.py]}"
    return campaign(folder, "{name: tiny, adapter: mock}", script)


def imported(
    capsys: pytest.CaptureFixture[str], study: Path, folder: Path, *more: str
) -> tuple[int, dict[str, Any]]:
    code = main(["import", str(study), str(folder), "--json", *more])
    out, err = capsys.readouterr()
    assert out, err
    return code, json.loads(out)


def result(folder: Path, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    cell = folder / "benchmark_results" / "study" / path
    metrics, sealed = (json.loads((cell / f).read_text()) for f in ("metrics.json", "cell.json"))
    return metrics, sealed


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
