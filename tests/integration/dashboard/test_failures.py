"""What the page of failures says to do, which is what ``benchfleet failures`` says."""

from __future__ import annotations

import html
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.cli.main import main, parser_of
from benchfleet.dashboard.campaigns import Campaigns, campaigns_of_study
from benchfleet.domain.cell import Cell
from benchfleet.reports.failures import TRUST
from benchfleet.study import open_study
from benchfleet.testing import sample_cell
from dashboards import DashboardCampaign, client_of, text_of

FILE = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  benchmarks: [{command: {name: mine, argv: [python, script.py]}}]
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the commands are typed in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").touch()
    return tmp_path


def own_script(number: int) -> Cell:
    cell = sample_cell(number)
    return replace(cell, workload=replace(cell.workload, benchmark="command"))


def page_of(campaigns: Campaigns) -> str:
    with client_of(campaigns) as client:
        return html.unescape(text_of(client, "failures"))


def command_on(page: str) -> str:
    (command,) = re.findall(r"<p>Then run: <code[^>]*>(.*?)</code>", page)
    return str(command)


def of_file(file: Path, *, results: str | None = None, ledger: str = "") -> Campaigns:
    """The dashboard of a file whose one cell failed."""
    file.write_text(FILE)
    study = open_study(load_campaign(file).with_results(results), ledger=ledger)
    campaign = DashboardCampaign(study.layout.root.parent)
    campaign.fail(study.cells()[0], kind="error")
    return campaigns_of_study(study)


def test_a_failure_of_the_user_s_own_script_says_to_correct_the_script(here: Path) -> None:
    campaign = DashboardCampaign(here)
    campaign.fail(own_script(1), "KeyError: 'x'", "error")
    assert "Correct your script or function" in page_of(campaign.campaigns())


def test_the_user_s_own_script_is_another_cause_than_a_benchmark(here: Path) -> None:
    campaign = DashboardCampaign(here)
    for cell in (own_script(1), sample_cell(2)):
        campaign.fail(cell, "KeyError: 'x'", "error")
    with client_of(campaign.campaigns()) as client:
        groups = client.get("/api/failures").json()["groups"]
        for group in groups:
            page = text_of(client, "failures", group=group["id"])
            assert html.escape(group["way_out"]) in page.replace("&#39;", "&#x27;")
    assert sorted(one["way_out"].startswith("Correct") for one in groups) == [False, True]


def test_a_spent_quota_is_no_server_that_answers_too_little(here: Path) -> None:
    campaign = DashboardCampaign(here)
    campaign.fail(sample_cell(1), "the quota is spent", "rate_limited")
    assert "quota of the account is spent" in page_of(campaign.campaigns())


def test_the_command_has_the_path_of_the_campaign_s_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = command_on(page_of(of_file(here / "my study.yaml")))
    file = "'my study.yaml'"
    assert shown == f"benchfleet retry {file} --kind error && benchfleet run {file}"
    assert main(["failures", "my study.yaml"]) == 0
    assert f"then: {shown}\n" in capsys.readouterr().out


def test_a_file_elsewhere_has_its_whole_path(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaigns = of_file(here / "study.yaml")
    (here / "other").mkdir()
    monkeypatch.chdir(here / "other")
    assert command_on(page_of(campaigns)).startswith(f"benchfleet retry {here}/study.yaml --kind")


def test_the_command_has_the_results_and_the_ledger_of_the_dashboard(here: Path) -> None:
    (here / "kept").mkdir()
    ledger = f"sqlite:{here}/kept/study/ledger.db"
    shown = command_on(page_of(of_file(here / "study.yaml", results="kept", ledger=ledger)))
    where = f"study.yaml --results kept --ledger {ledger}"
    assert shown == f"benchfleet retry {where} --kind error && benchfleet run {where}"


def test_the_command_of_a_campaign_without_a_file_names_its_ledger(here: Path) -> None:
    campaign = DashboardCampaign(here / "benchmark_results")
    campaign.fail(sample_cell(1))
    shown = command_on(page_of(campaign.campaigns()))
    where = f"--ledger {campaign.url} --campaign study"
    assert shown == f"benchfleet retry {where} --kind oom && benchfleet work {where}"
    for command in shown.split(" && "):
        words = shlex.split(command)[1:]
        arguments = parser_of(words).parse_args(words)
        assert (arguments.campaign, arguments.named) == (None, "study")


def test_the_command_for_cells_that_bring_code_trusts_the_ledger_where_no_file_is(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = DashboardCampaign(here / "benchmark_results")
    campaign.fail(own_script(1), kind="error")
    campaign.fail(sample_cell(2))
    with client_of(campaign.campaigns()) as client:
        pages = [
            html.unescape(text_of(client, "failures", group=group["id"]))
            for group in client.get("/api/failures").json()["groups"]
        ]
    shown = sorted(map(command_on, pages))
    where = f"--ledger {campaign.url} --campaign study"
    assert shown == [
        f"benchfleet retry {where} --kind error && benchfleet work {where} --trust-campaign",
        f"benchfleet retry {where} --kind oom && benchfleet work {where}",
    ]
    assert sorted(TRUST in page for page in pages) == [False, True]
    assert main(["failures", *where.split()]) == 0
    printed = capsys.readouterr().out
    assert [f"then: {one}\n" in printed for one in shown] == [True, True]
    assert printed.count(TRUST) == 1


def test_a_cause_says_where_its_cells_concentrate(here: Path) -> None:
    campaign = DashboardCampaign(here)
    campaign.finish(sample_cell(8))
    campaign.finish(sample_cell(8, config="sparse"))
    for repeat in range(3):
        campaign.fail(sample_cell(9, repeat=repeat, repeats=True))
    campaign.fail(sample_cell(9, config="sparse"))
    for subset in ("de", "fr", "fr2", "it"):
        cell = sample_cell(7)
        work = replace(cell.workload, subset=subset)
        campaign.fail(replace(cell, workload=work), "the answer is empty", "error")
    page = page_of(campaign.campaigns())
    assert "all in benchmark-9" in page
    assert "all with dense, all in benchmark-7" in page
    for repeat in range(4):
        cell = sample_cell(6, repeat=repeat, repeats=True)
        work = replace(cell.workload, subset="de")
        campaign.fail(replace(cell, workload=work), "a question is missing", "error", "lab2")
    assert "all on lab2, all with dense, all in benchmark-6_de" in page_of(campaign.campaigns())
