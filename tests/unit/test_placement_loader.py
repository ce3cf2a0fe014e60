"""What a ledger's reports and plans say of where cells may run and should."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.benchmarks.mock_benchmark import MockBenchmark
from benchfleet.campaign.base import Campaign
from benchfleet.campaign.load import load_campaign
from benchfleet.domain.eligibility import PROBED
from benchfleet.domain.event import Event
from benchfleet.domain.plan import Plan
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.placement_loader import load_placement, missing_data_of
from benchfleet.testing.sample_cells import sample_cell
from capabilities import BOARD, DESKTOP, reported

STUDY = """\
campaign: study
eligibility:
  big: {when: ram_total >= 8GB, models: [large, small-*], variants: false}
matrix:
  models:
    - {name: large, adapter: mock, variants: [{name: small-q4, adapter: mock}]}
  benchmarks: [mock_benchmark]
"""
LARGE = sample_cell(model="large")


def study(folder: Path) -> Campaign:
    (folder / "study.yaml").write_text(STUDY)
    return load_campaign(folder / "study.yaml")


def probed(*reports: dict[str, object]) -> MemoryLedger:
    ledger = MemoryLedger()
    for one in reports:
        ledger.record(Event(kind=PROBED, data={"report": one}))
    return ledger


def test_the_newest_report_of_a_machine_binds_it_by_rule_and_date(tmp_path: Path) -> None:
    campaign = study(tmp_path)
    ledger = probed(reported("lab1", BOARD), reported("lab2", DESKTOP))
    placement = load_placement(campaign, ledger)
    assert placement.why_not(LARGE) == {
        "lab1": "big: ram_total is 4 GB, not >= 8 GB (report of lab1, 2026-03-01 00:00)"
    }
    newer = {**reported("lab1", DESKTOP), "timestamp": "2026-04-01T10:20:30+00:00"}
    ledger.record(Event(kind=PROBED, data={"report": newer}))
    assert load_placement(campaign, ledger).barred(LARGE) == frozenset()


def test_rules_tell_variants_from_models_by_the_campaign(tmp_path: Path) -> None:
    placement = load_placement(study(tmp_path), probed(reported("lab1", BOARD)))
    assert placement.barred(LARGE) == {"lab1"}
    assert not placement.barred(sample_cell(model="small-q4"))
    assert placement.barred(sample_cell(model="small-full")) == {"lab1"}
    assert placement.barred(sample_cell(5, model="large")) is placement.barred(LARGE)


def test_the_runners_own_machine_is_called_by_no_name(tmp_path: Path) -> None:
    ledger = probed(reported("lab1", BOARD))
    ledger.record(Plan(number=1, hosts={"lab1": ["a"], "lab2": ["b"]}).event())
    placement = load_placement(study(tmp_path), ledger, local_host="lab1")
    assert placement.barred(LARGE) == {"", "lab1"}
    assert placement.planned_hosts == {"a": "", "b": "lab2"}


def test_the_newest_plan_counts_with_the_forms_of_all(tmp_path: Path) -> None:
    ledger = probed()
    ledger.record(Plan(number=1, hosts={"lab1": ["a", "b"]}, forms={"a": "a-q4"}).event())
    ledger.record(Plan(number=2, hosts={"lab2": ["a"]}).event())
    assert load_placement(study(tmp_path), ledger).planned_hosts == {"a-q4": "lab2"}


def test_a_report_that_cannot_be_read_binds_nobody_and_is_reported(tmp_path: Path) -> None:
    ledger = probed(reported("lab1", BOARD), {"hostname": "lab2"})
    placement = load_placement(study(tmp_path), ledger)
    assert placement.barred(LARGE) == {"lab1"}
    (note,) = placement.notes
    assert note.startswith("the report in event 2 of the ledger tells no memory")
    assert note.endswith("it is ignored")


def test_without_reports_and_plans_machines_are_not_distinguished(tmp_path: Path) -> None:
    placement = load_placement(study(tmp_path), probed())
    assert not placement.binds
    assert placement.barred(LARGE) == frozenset()
    assert placement.kept_off([LARGE]) == []


def test_a_machine_that_no_report_speaks_of_is_named_where_rules_bind_its_cells(
    tmp_path: Path,
) -> None:
    placement = load_placement(
        study(tmp_path), probed(reported("lab1.lan", BOARD)), local_host="laptop"
    )
    (output,) = placement.unreported([LARGE], {"lab1", "lab1.lan"})
    assert output.startswith(
        "no report of lab1: no rule keeps a cell off it, and no plan gives it one"
    )
    assert "the reports are of lab1.lan. Is it one of these, call it so in the inventory" in output
    (output,) = placement.unreported([LARGE], [""])
    assert output.startswith("no report of laptop: ")
    assert "say so by BENCHFLEET_HOST" in output
    assert not placement.unreported([sample_cell()], {"lab1"})  # no rule is about it
    assert not load_placement(study(tmp_path), probed()).unreported([LARGE], {"lab1"})
    known = load_placement(study(tmp_path), probed(reported("lab1", BOARD)), local_host="lab1")
    assert not known.unreported([LARGE], ["", "lab1"])


def test_a_machine_that_no_report_speaks_of_is_named_where_a_plan_gives_the_cells(
    tmp_path: Path,
) -> None:
    ledger = probed(reported("lab1.lan", BOARD))
    cell = sample_cell()
    ledger.record(Plan(number=1, hosts={"lab1.lan": [str(cell.fingerprint)]}).event())
    assert load_placement(study(tmp_path), ledger).unreported([cell], {"lab1"})


def test_what_is_kept_off_is_summed_up_by_machine_and_reason(tmp_path: Path) -> None:
    ledger = probed(reported("lab1", BOARD), reported("lab2", BOARD))
    placement = load_placement(study(tmp_path), ledger)
    cells = [LARGE, replace(LARGE, repeat=1), sample_cell(model="small-x"), sample_cell()]
    one, other = placement.kept_off(cells)
    assert (one.host, one.cells, one.models) == ("lab1", 3, ("large", "small-x"))
    assert str(one).startswith("none of 3 cells of large, small-x: big: ram_total is 4 GB")
    assert placement.kept_off(cells, {"lab2"}) == [other]


def test_without_any_report_the_local_machine_is_bound_by_its_own_facts(tmp_path: Path) -> None:
    text = STUDY.replace("ram_total >= 8GB", "ram_total >= 900TB")
    (tmp_path / "study.yaml").write_text(text)
    campaign = load_campaign(tmp_path / "study.yaml")
    for ledger in (probed(), None):
        placement = load_placement(campaign, ledger, local_host="laptop")
        assert placement.barred(LARGE) == {""}
        assert not placement.barred(sample_cell(model="other"))
        assert (
            "not >= 9e+05 GB (this machine now; `benchfleet probe" in placement.why_not(LARGE)[""]
        )
    (note,) = placement.unreported([LARGE], ["", "lab1"])
    assert note.startswith("no report of lab1: no rule keeps a cell off it")
    assert "no machine has a report" in note
    assert not load_placement(campaign, probed()).binds
    assert not load_placement(campaign, probed(reported("x", DESKTOP)), local_host="y").barred(
        LARGE
    ) - {"x"}


def test_all_benchmarks_are_asked_for_their_data_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together = threading.Barrier(2)

    def missing(self: MockBenchmark, subset: str | None) -> str:
        together.wait(30)  # breaks if one is asked after the other
        return f"{subset} cannot be reached"

    monkeypatch.setattr(MockBenchmark, "missing_data", missing)
    cells = [
        sample_cell(benchmark="mock_benchmark", subset=one, repeat=n) for n, one in enumerate("aba")
    ]
    reasons = missing_data_of(cells)
    assert [reasons[cell.fingerprint][0] for cell in cells] == ["a", "b", "a"]
