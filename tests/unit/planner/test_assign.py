"""What goes where, on machines that are known by their reports alone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.campaign.base import Campaign
from benchfleet.campaign.load import load_campaign
from benchfleet.cli.text.gantt import headline, svg, text
from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.cell import Cell
from benchfleet.machines.probe import report
from benchfleet.planner.assign import Assigner
from benchfleet.planner.assignment import Assignment
from capabilities import fleet
from records import record_of

STUDY = """\
campaign: study
matrix:
  models:
    - name: r1-7b
      adapter: mock
      size: 8GB
      model_kwargs: {answer: full}
      variants: [{name: r1-7b-q4, adapter: mock, size: 4.7GB, model_kwargs: {answer: small}}]
    - {name: r1-70b, adapter: mock, size: 64GB, model_kwargs: {answer: large}}
  configs: {dense: null}
  benchmarks: [mock_benchmark, {recall: {subsets: [128, 512], samples: 50}}]
  exclude: [{models: r1-70b, benchmarks: mock_benchmark}, {models: r1-70b, subsets: 128}]
phases:
  - {name: prerequisites, only: {models: r1-7b, benchmarks: mock_benchmark}}
  - {name: e0, only: {models: r1-7b, subsets: 128}}
  - {name: e2, only: [{models: r1-7b, subsets: 512}, {models: r1-70b, subsets: 512}]}
"""
MACHINES = [report.read(data, "it") for data in fleet()]
SMALL = [machine for machine in MACHINES if machine.hostname != "box"]


@pytest.fixture
def study(tmp_path: Path) -> Campaign:
    file = tmp_path / "study.yaml"
    file.write_text(STUDY)
    return load_campaign(file)


def _plan(study: Campaign, machines: list[report.Capability], **more: Any) -> Assignment:
    return Assigner(study, machines, [], **more).plan(study.matrix.expand(), effort=0.2)


def _where(plan: Assignment) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in plan.cells:
        found.setdefault(one.host, set()).add(f"{one.cell.phase}: {one.cell.model.name}")
    return found


def _running(cell: Cell) -> CellRecord:
    return record_of(cell, state="running")


def _done(cell: Cell, host: str, seconds: float) -> CellRecord:
    outcome = Outcome(
        state="success", host=host, device_type="cpu", seconds={"benchmark": seconds, "load": 1.0}
    )
    return record_of(cell, outcome=outcome)


def test_strong_machines_get_e2_in_full_and_small_ones_variants(study: Campaign) -> None:
    laptop = [machine for machine in MACHINES if machine.hostname == "laptop"]
    assert _where(_plan(study, laptop)) == {
        "laptop": {f"{p}: r1-7b-q4" for p in ("prerequisites", "e0", "e2")}
    }
    desktop = [machine for machine in MACHINES if machine.hostname == "desktop"]
    assert "e2: r1-7b" in _where(_plan(study, desktop))["desktop"]


def test_what_fits_nowhere_is_named_with_the_reason_of_each_machine(study: Campaign) -> None:
    plan = _plan(study, SMALL)
    ((cell, why),) = plan.unplaceable.items()
    assert cell == "r1-70b/dense/recall_512"
    assert "board: e2_full: ram_available is 3.4 GB, not >= 12 GB" in why
    assert "desktop: takes 77.2 GB, it has 13.5 GB free" in why
    assert not _plan(study, MACHINES).unplaceable
    assert "e2: r1-70b" in _where(_plan(study, MACHINES))["box"]


def test_every_cell_is_run_once_in_one_form(study: Campaign) -> None:
    plan = _plan(study, MACHINES)
    assert sorted(one.declared.id for one in plan.cells) == sorted(
        cell.id for cell in study.matrix.expand()
    )


def test_phases_follow_each_other(study: Campaign) -> None:
    plan = _plan(study, SMALL)
    assert list(plan.phases) == ["prerequisites", "e0", "e2"]
    for one in plan.cells:
        begin, end = plan.phases[one.cell.phase]
        assert begin <= one.begin < one.end <= end


@pytest.mark.slow
def test_phases_that_require_nothing_of_each_other_run_together(study: Campaign) -> None:
    chained = _plan(study, SMALL)
    free = replace(study, phases=tuple(replace(one, requires=()) for one in study.phases))
    plan = _plan(free, SMALL)
    assert set(plan.phases) == set(chained.phases)
    assert plan.makespan < chained.makespan


def test_with_variants_where_needed_a_strong_machine_does_all_that_it_can(study: Campaign) -> None:
    plan = _plan(study, SMALL, variants="needed")
    assert set(_where(plan)) == {"desktop"}
    assert all(one.cell is one.declared for one in plan.cells)


def test_what_is_done_in_any_form_is_not_given_again(study: Campaign) -> None:
    cells = study.matrix.expand()
    (_, _), (_, variant) = study.matrix.forms(cells[0])
    records = [_done(variant, "laptop", 30.0)]
    plan = Assigner(study, SMALL, records).plan(cells, effort=0.2)
    assert plan.done == 1
    assert cells[0].id not in {one.declared.id for one in plan.cells}


def test_times_come_from_what_ran_there_and_else_from_measured_speed(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(
        "campaign: s\ndefaults: {repeats: 40, adapter: mock}\nmatrix:\n"
        "  models: [{name: m}]\n  benchmarks: [mock_benchmark]\n"
    )
    study = load_campaign(file)
    cells = study.matrix.expand()
    records = [_done(cells[0], "laptop", 90.0)]
    plan = Assigner(study, SMALL, records).plan(cells, effort=0.2)
    seconds = {one.host: one.end - one.begin for one in plan.cells}
    assert seconds["laptop"] == pytest.approx(90.0)
    assert seconds["desktop"] == pytest.approx(90.0 * 90 / 400)  # by GFLOP/s
    assert set(plan.times) == {"ran there", "ran elsewhere"}
    assert "add 'size:'" in " ".join(plan.notes)


def test_the_plan_is_drawn(study: Campaign) -> None:
    plan = _plan(study, SMALL)
    drawn = svg(plan, title="<study>")
    assert "&lt;study&gt;" in drawn
    assert drawn.count("<rect") >= len(plan.cells)
    assert "sequentially; lower bound" in headline(plan)
    assert any(line.startswith("desktop") for line in text(plan))
    assert list(text(plan))[-1].endswith("░ model download and load")


@pytest.mark.parametrize(
    ("seconds", "ticks"),
    [
        (110, ["0 s", "20 s", "40 s", "1 min", "1 min 20", "1 min 40"]),
        (5500, ["0 s", "20 min", "40 min", "1 h", "1 h 20"]),
    ],
)
def test_each_line_of_the_picture_has_a_time_of_its_own(
    study: Campaign, seconds: float, ticks: list[str]
) -> None:
    plan = replace(_plan(study, SMALL), makespan=seconds)
    found = re.findall(r'text-anchor="(?:middle|end)" fill="#555">([^<]*)<', svg(plan, title=""))
    assert found == ticks


def test_a_cell_too_short_to_see_is_drawn_all_the_same(study: Campaign) -> None:
    plan = _plan(study, SMALL)
    short = [replace(one, end=one.begin + 0.001) for one in plan.cells]
    plan = replace(plan, cells=short, makespan=1e6)
    for host in {one.host for one in short}:
        slots = [line for line in text(plan) if line.startswith(host)]
        assert any(letter in line for line in slots for letter in "ABC")
    for bar in svg(plan, title="").split("<rect")[2:]:
        assert float(bar.partition('width="')[2].partition('"')[0]) >= 0.5


def test_what_is_compared_with_what_ran_is_run_in_the_same_form(study: Campaign) -> None:
    study = replace(study, matrix=replace(study.matrix.parts[1], repeats=2))
    cells = study.matrix.expand()
    small = study.matrix.forms(cells[0])[1][1]
    records = [_done(small, "laptop", 30.0)]
    desktop = [machine for machine in MACHINES if machine.hostname == "desktop"]
    (given,) = Assigner(study, desktop, records).plan(cells, effort=0.1).cells
    assert given.cell.model.name == "r1-7b-q4"
    (given,) = Assigner(study, desktop, records, variants="mixed").plan(cells, effort=0.1).cells
    assert given.cell.model.name == "r1-7b"
    laptop = [machine for machine in MACHINES if machine.hostname == "laptop"]
    records = [_done(cells[0], "desktop", 30.0)]
    (why,) = Assigner(study, laptop, records).plan(cells, effort=0.1).unplaceable.values()
    assert "others of its table ran with r1-7b; see --variants mixed" in why


def test_a_cell_stays_where_it_runs_while_that_machine_is_in_the_plan(study: Campaign) -> None:
    cells = study.matrix.expand()
    holders = {str(cells[0].fingerprint): "laptop"}
    whole = Assigner(study, SMALL, [_running(cells[0])], holders=holders).plan(cells, effort=0.1)
    assert [(one.declared, one.host) for one in whole.running] == [(cells[0], "laptop")]
    assert cells[0] not in [one.declared for one in whole.cells]
    others = [machine for machine in SMALL if machine.hostname != "laptop"]
    left = Assigner(study, others, [_running(cells[0])], holders=holders).plan(cells, effort=0.1)
    assert left.running == []
    assert cells[0] in [one.declared for one in left.cells]


def test_a_cell_is_done_with_when_the_form_that_counts_was_cancelled(study: Campaign) -> None:
    cell = study.matrix.expand()[0]
    small = study.matrix.forms(cell)[1][1]
    cancelled = record_of(cell, state="cancelled")
    assert Assigner(study, SMALL, [cancelled]).plan([cell], effort=0.1).done == 1
    forms = {str(cell.fingerprint): str(small.fingerprint)}
    assert Assigner(study, SMALL, [cancelled], forms=forms).plan([cell], effort=0.1).done == 0


@pytest.mark.slow
def test_plans_for_boards_laptops_desktops_and_boxes_are_within_5_percent_of_the_bound(
    tmp_path: Path,
) -> None:
    models = "".join(
        f"    - {{name: m{n}, adapter: mock, size: {1 + 0.35 * n:.2f}GB, "
        f"model_kwargs: {{answer: a{n}}}}}\n"
        for n in range(20)
    )
    subsets = [64 * n for n in range(1, 11)]
    (tmp_path / "many.yaml").write_text(
        f"campaign: many\nmatrix:\n  models:\n{models}  configs: {{dense: null}}\n"
        f"  benchmarks: [{{recall: {{subsets: {subsets}, samples: 50}}}}]\n"
    )
    campaign = load_campaign(tmp_path / "many.yaml")
    cells = campaign.matrix.expand()
    assert len(cells) == 200
    for machines in (MACHINES, SMALL):
        plan = Assigner(campaign, machines, []).plan(cells, effort=0.3, seconds=1000)
        assert plan.gap <= 0.05


def test_cells_of_one_server_elsewhere_go_to_one_machine_and_take_none_of_its_slots(
    tmp_path: Path,
) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(
        "campaign: s\nmatrix:\n  models:\n"
        "    - {name: a, adapter: openai, url: 'http://lab:8000/v1'}\n"
        "    - {name: b, adapter: openai, url: 'http://lab:8000/v1'}\n"
        "    - {name: here, adapter: mock, size: 1GB}\n"
        "  configs: {dense: null}\n  benchmarks: [{recall: {subsets: [128, 512], samples: 5}}]\n"
    )
    plan = _plan(load_campaign(file), MACHINES)
    served = [one for one in plan.cells if one.cell.need.endpoint]
    assert len(served) == 4
    assert len({one.host for one in served}) == 1
    assert {one.slots for one in served} == {()}
    assert len(plan.cells) == 6
