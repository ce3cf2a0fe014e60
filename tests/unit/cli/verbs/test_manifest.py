"""``benchfleet manifest``: the table as CSV."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.cli.main import main
from dashboards import DashboardCampaign

FILE = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  benchmarks: [{mock_benchmark: {}}]
"""


def test_a_spreadsheet_computes_nothing_in_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(FILE)
    (cell,) = load_campaign(tmp_path / "study.yaml").matrix.expand()
    campaign = DashboardCampaign(tmp_path / "benchmark_results")
    campaign.fail(cell, message='=HYPERLINK("x"),\x1b[31m\n2')
    assert main(["manifest", "study.yaml", "--format", "csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["error_message"] == '\'=HYPERLINK("x"),\\x1b[31m 2'
    ledger = ["--ledger", "benchmark_results/study/ledger.db", "--campaign", "study"]
    assert main(["manifest", *ledger, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["manifest"][0]["id"] == row["id"]
