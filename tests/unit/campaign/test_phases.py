"""The phases of a campaign file, and the mistakes in them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from textwrap import dedent

import pytest

from benchfleet.campaign.base import Campaign
from benchfleet.campaign.load import read_campaign
from benchfleet.campaign.selection import choose_cells
from benchfleet.campaign.yaml_reader import read_yaml
from benchfleet.domain.matrix import Rule
from benchfleet.domain.phase import Phase
from benchfleet.errors import CampaignError

AXES = """\
campaign: study
matrix:
  models: [{name: a, adapter: mock}, {name: b, adapter: mock, model_kwargs: {answer: "8"}}]
  configs: {dense: null, local: {attention: {local: 4}}}
  benchmarks: [mock_benchmark, recall: [128, 256]]
"""


def read(text: str, axes: str = AXES) -> Campaign:
    source = read_yaml(axes + dedent(text))
    return read_campaign(source, file=Path("/nowhere/study.yaml"), file_label="study.yaml")


def mistakes(text: str, axes: str = AXES) -> dict[str, tuple[int | None, str]]:
    with pytest.raises(CampaignError) as caught:
        read(text, axes)
    return {m.key: (m.line, m.message) for m in caught.value.mistakes}


def phased(campaign: Campaign) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for cell in campaign.matrix.expand():
        found.setdefault(cell.phase, []).append(cell.id)
    return found


def test_phases_choose_of_the_campaigns_matrix_and_the_rest_is_of_none() -> None:
    campaign = read("""\
        phases:
          - {name: e0, only: {benchmarks: mock_benchmark, models: a}, gate: min(score) >= 0.9}
          - {name: e1, only: {benchmarks: recall}, exclude: {configs: local, subsets: 256}}
        """)
    found = phased(campaign)
    assert found["e0"] == ["a/dense/mock_benchmark", "a/local/mock_benchmark"]
    assert len(found["e1"]) == 6
    assert found[""] == [
        "a/local/recall_256", "b/dense/mock_benchmark", "b/local/mock_benchmark",
        "b/local/recall_256",
    ]  # fmt: skip
    assert campaign.phases == (
        Phase(name="e0", gate="min(score) >= 0.9"),
        Phase(name="e1", requires=("e0",)),
    )


def test_a_phases_own_matrix_takes_what_it_lacks_from_the_campaigns() -> None:
    campaign = read(
        """\
        phases:
          - {name: prerequisites, matrix: {benchmarks: [mock_benchmark]}}
          - {name: e0, matrix: {models: [{name: c, adapter: mock, model_kwargs: {answer: "3"}}],
             configs: {dense: null}, benchmarks: [recall: 128]}, requires: []}
        """,
        AXES.replace("  benchmarks: [mock_benchmark, recall: [128, 256]]\n", ""),
    )
    assert phased(campaign) == {
        "prerequisites": [
            "a/dense/mock_benchmark", "a/local/mock_benchmark",
            "b/dense/mock_benchmark", "b/local/mock_benchmark",
        ],
        "e0": ["c/dense/recall_128"],
    }  # fmt: skip
    assert [phase.requires for phase in campaign.phases] == [(), ()]


def test_a_phase_is_no_part_of_a_cells_identity_and_a_limited_cell_is_of_none() -> None:
    plain = {cell.fingerprint for cell in read("").matrix.expand()}
    campaign = read("phases: [{name: e0, only: {models: a}}, {name: e1, only: {models: b}}]\n")
    cells = campaign.matrix.expand()
    assert {cell.fingerprint for cell in cells} == plain
    chosen = choose_cells(cells, only=["phases=e0"])
    assert {cell.model.name for cell in chosen} == {"a"}
    assert {cell.phase for cell in choose_cells(cells, only=["phases=e0"], limit=3)} == {""}
    with pytest.raises(CampaignError, match="no phase is called 'e00'; did you mean 'e0'"):
        choose_cells(cells, only=["phases=e00"])


def test_critical_cells_are_all_or_chosen_or_named_by_their_benchmark() -> None:
    campaign = read("""\
        phases:
          - {name: e0, only: {models: a}, critical: true}
          - {name: e1, only: {models: b, benchmarks: recall}, critical: {subsets: 128}}
          - name: e2
            matrix: {benchmarks: [mock_benchmark: {limit: 2, critical: true}, recall: 512]}
        """)
    critical = {
        cell.id
        for cell in campaign.matrix.expand()
        for phase in campaign.phases
        if phase.name == cell.phase and phase.is_critical(cell)
    }
    assert campaign.phases[0].critical == (Rule(),)
    assert {name for name in critical if name.startswith("b/dense")} == {
        "b/dense/recall_128",
        "b/dense/mock_benchmark+limit2",
    }


def test_phases_survive_the_way_to_those_without_the_file() -> None:
    campaign = read("""\
        phases:
          - {name: e0, only: {models: a}, critical: {subsets: [128, "256"]}, gate: min(score) > 0}
          - {name: e1, only: {models: b}}
        """)
    for phase in campaign.phases:
        assert Phase.from_dict(phase.to_dict()) == phase


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("phases: [{name: e0, gate: 'min(score >= 1'}]", "phases[0].gate", "cannot be read"),
        (
            "phases: [{name: e0, gate: any(score) > 0.9}]",
            "phases[0].gate",
            "write 'any(score > 0.9)'",
        ),
        ("phases: [{name: e0, gate: 'mean(score'}]", "phases[0].gate", "put all of it in quotes"),
        ("phases: [{gate: score > 1}]", "phases[0]", "has no name"),
        ("phases: [{name: ../x}]", "phases[0].name", "may not start with a dot"),
        ("phases: [{name: 'a,b'}]", "phases[0].name", "remove commas"),
        ("phases: []", "phases", "names no phase"),
        ("phases: [{name: e0}, {name: e1}]", "phases[1]", "is of phase 'e0' already"),
        ("phases: [{name: e0, only: {models: x}}]", "phases[0].only.models", "no model 'x'"),
        (
            "phases: [{name: e0, only: {models: a}}, {name: e0, only: {models: b}}]",
            "phases[1].name",
            "stands twice",
        ),
        ("phases: [{name: e0, requires: e1}]", "phases[0].requires", "not an earlier phase"),
        ("phases: [{name: e0, requires: [e0]}]", "phases[0].requires[0]", "requires itself"),
        (
            "phases: [{name: e0, only: {subsets: 128}, exclude: {benchmarks: recall}}]",
            "phases[0]",
            "its rules leave nothing",
        ),
        ("phases: [{name: e0, matrix: {exclude: {models: a}}}]", "phases[0].matrix", "no axis"),
        (
            "phases: [{name: e0, matrix: {models: [{name: a, adapter: mok}]}}]",
            "phases[0].matrix.models[0].adapter",
            "did you mean 'mock'",
        ),
        (
            "phases: [{name: e0, matrix: {configs: {dense: {attention: {sink: 4}}}}}]",
            "phases[0]",
            "config 'dense' is another than the one before; rename one",
        ),
        (
            "phases: [{name: e0, matrix: {benchmarks: [{recall: {subsets: 128, samples: 3}}]}}]",
            "phases[0]",
            "benchmark 'recall_128' is another than the one before; give it another 'name' (of",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_key_and_line(text: str, key: str, message: str) -> None:
    found = mistakes(text + "\n")
    assert found.keys() == {key}
    line, output = found[key]
    assert line == 6
    assert message in output


def test_axes_that_nobody_names_are_reported() -> None:
    nothing = "campaign: study\n"
    assert "has no matrix" in mistakes("phases: [{name: e0}]\n", nothing)["phases[0]"][1]
    found = mistakes("phases: [{name: e0, matrix: {configs: {dense: null}}}]\n", nothing)
    assert "has no models" in found["phases[0].matrix"][1]
    assert "is missing" in mistakes("", nothing)["matrix"][1]


def test_a_critical_benchmark_of_no_phase_closes_nothing() -> None:
    axes = AXES.replace("mock_benchmark,", "mock_benchmark: {critical: true},")
    found = mistakes("", axes)
    assert found["matrix.benchmarks[0].mock_benchmark.critical"][0] == 5


def test_a_gate_on_a_metric_that_no_cell_reports_is_a_mistake() -> None:
    found = mistakes("""\
        phases:
          - {name: e0, only: {models: a}, gate: "min(accurcy) > 0.5 and chance == 0.1 or true"}
          - {name: e1, only: {models: b}, gate: mean(density) < 1}
        """)
    (_, message) = found["phases[0].gate"]
    assert message.startswith("no cell of this phase reports 'accurcy'; there are chance, ")
    assert set(found) == {"phases[0].gate", "phases[1].gate"}  # the mock adapter measures nothing


def test_a_gate_on_cells_that_its_phase_can_never_have_is_a_mistake() -> None:
    found = mistakes("""\
        phases:
          - {name: e0, only: {models: a}, gate: "min(score, configs='dens') >= 0"}
          - {name: e1, only: {models: b}, gate: "mean(score, subsets='25') > 0 or completeness > 0"}
          - {name: e2, matrix: {benchmarks: [{recall: [64]}]}, only: {configs: local, models: a},
             gate: "max(score, benchmarks='mock*') > 0"}
        """)
    assert found["phases[0].gate"][1].startswith("min(score, configs='dens') matches no cell of ")
    assert "no config matches 'dens'; did you mean 'dense'?" in found["phases[0].gate"][1]
    assert "no subset matches '25'; did you mean '256'" in found["phases[1].gate"][1]
    assert "no benchmark matches 'mock*'; there is recall" in found["phases[2].gate"][1]


def test_a_gate_on_cells_that_are_known_apart_alone_is_a_mistake() -> None:
    gate = "min(score, benchmarks='mock_benchmark', subsets='128') > 0"
    found = mistakes(f"""\
        phases: [{{name: e0, gate: "{gate}"}}]
        """)
    assert "each name is known, but not together" in found["phases[0].gate"][1]


@pytest.mark.parametrize(
    "choice", ["configs='d*'", "configs='dense,lokal'", "configs='!dens'", "repeats='0'"]
)
def test_a_gate_on_cells_that_match_is_right(choice: str) -> None:
    campaign = read(f"""\
        phases: [{{name: e0, gate: "min(score, {choice}) > 0"}}]
        """)
    assert campaign.phases[0].gate


def test_a_gate_may_name_checkpoints_and_variants_that_come_later(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "step-1"
    folder.mkdir(parents=True)
    (folder / "weights").write_text("1")
    for path in (folder, folder / "weights"):  # complete: long unchanged
        os.utime(path, (time.time() - 100,) * 2)
    series = f'{{name: run, adapter: mock, checkpoints: "{tmp_path}/out/step-*"}}'
    variants = "{name: big, adapter: mock, variants: [{name: small, adapter: mock, "
    variants += 'model_kwargs: {answer: "9"}}]}'
    for model, later in ((series, "run-2"), (variants, "small")):
        axes = AXES.replace("models: [", f"models: [{model}, ")
        gate = f"min(score, models='{later}', configs='dense') > 0"
        assert read(f'phases: [{{name: e0, gate: "{gate}"}}]\n', axes).phases
        found = mistakes(f'phases: [{{name: e0, gate: "{gate.replace("dense", "dens")}"}}]\n', axes)
        assert "no config matches 'dens'" in found["phases[0].gate"][1]


def test_a_gate_on_what_a_script_reports_is_known_after_a_run_alone() -> None:
    campaign = read("""\
        phases:
          - name: e0
            matrix: {benchmarks: [{command: {name: own, argv: [echo], cwd: /}}, mock_benchmark]}
            gate: min(whatever) > 0.5
        """)
    assert campaign.phases[0].gate == "min(whatever) > 0.5"


def test_a_phase_of_wrong_cells_is_no_mistake_of_its_own() -> None:
    axes = AXES.replace("name: a,", "name: a, needs: {vram: 22XB},")
    assert axes != AXES
    found = mistakes("phases: [{name: e0, only: {models: a}}]", axes)
    assert list(found) == ["matrix.models[0].needs.vram"]
