"""Campaigns that define their phases in Python, with enums and registries for names."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.domain.campaign_record import newest_record
from benchfleet.domain.host_filter import ANY_HOST, HostFilter, filter_for_host
from benchfleet.domain.names import entry_name
from benchfleet.errors import CampaignError
from benchfleet.study import open_study

SETTINGS = """\
from enum import Enum
from benchfleet import PhaseDefinition, RunnerConfig

class Configuration:
    def __init__(self, name):
        self.name = name

CONFIGURATIONS = {name: Configuration(name) for name in ("baseline", "rag_v2")}

class Detailed(Enum):
    CARROT_EASY = "carrot-easy_detailed"

class Levels(Enum):
    DETAILED = Detailed

class Local(Enum):
    CODER_Q8 = "Deepseek-Coder-V2-16B-Q8"
    CODER_Q4 = Configuration("Deepseek-Coder-V2-16B-Q4")

PHASES = (
    PhaseDefinition(
        phase="phase1",
        configs=[CONFIGURATIONS["baseline"]],
        levels=[Levels.DETAILED.value.CARROT_EASY],
        models=[Local.CODER_Q8, Local.CODER_Q4],
        reruns=1,
    ),
    PhaseDefinition(
        phase="phase2",
        configs=list(CONFIGURATIONS.values()),
        levels=["beet", "carrot-hard"],
        models=[Local.CODER_Q8],
        reruns=2,
    ),
)
RUNNER_CONFIGS = {
    "machine-a": RunnerConfig(phase="phase1", allowed_models=[Local.CODER_Q8]),
    "machine-b": RunnerConfig(allowed_models=[Local.CODER_Q4]),
}
RUN = ["python", "run.py", "--level", "{benchmark}", "--model", "{model}", "--config={config_name}"]
"""


def settings(folder: Path, text: str = SETTINGS) -> Path:
    file = folder / "phase_settings.py"
    file.write_text(dedent(text))
    (folder / "run.py").write_text("print('{\"score\": 1}')\n")
    return file


def test_phases_are_named_by_enums_and_objects_and_their_cells_as_their_results(
    tmp_path: Path,
) -> None:
    campaign = load_campaign(settings(tmp_path))
    assert campaign.name == "phase_settings"
    entries: dict[str, list[str]] = {}
    for cell in campaign.matrix.expand():
        entries.setdefault(cell.phase, []).append(entry_name(cell.id))
    assert entries["phase1"] == [
        "carrot-easy_detailed_Deepseek-Coder-V2-16B-Q8_baseline_0",
        "carrot-easy_detailed_Deepseek-Coder-V2-16B-Q4_baseline_0",
    ]
    assert len(entries["phase2"]) == 8
    assert "beet_Deepseek-Coder-V2-16B-Q8_rag_v2_1" in entries["phase2"]
    assert [phase.requires for phase in campaign.phases] == [(), ()]
    fingerprints = {cell.fingerprint for cell in campaign.matrix.expand()}
    assert len(fingerprints) == 10  # configs that are nothing but names differ


def test_what_two_phases_have_is_of_the_first(tmp_path: Path) -> None:
    text = SETTINGS.replace(
        'levels=["beet", "carrot-hard"]', "levels=[Levels.DETAILED.value.CARROT_EASY]"
    )
    found = [
        (cell.phase, entry_name(cell.id)[-10:])
        for cell in load_campaign(settings(tmp_path, text)).matrix.expand()
    ]
    assert sorted(name for phase, name in found if phase == "phase2") == [
        "8_rag_v2_0",
        "8_rag_v2_1",
        "baseline_1",
    ]


def test_a_host_runs_what_its_runner_config_lets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = load_campaign(settings(tmp_path))
    study, cells = open_study(campaign), campaign.matrix.expand()
    monkeypatch.setenv("BENCHFLEET_HOST", "machine-a")
    assert [cell.phase for cell in study.allowed_here(cells)] == ["phase1"]
    monkeypatch.setenv("BENCHFLEET_HOST", "machine-b")
    assert {cell.model.name for cell in study.allowed_here(cells)} == {"Deepseek-Coder-V2-16B-Q4"}
    monkeypatch.setenv("BENCHFLEET_HOST", "machine-c")
    assert study.allowed_here(cells) == cells
    assert campaign.record is not None
    assert newest_record([campaign.record.event()]) == campaign.record


def test_a_host_without_a_name_of_its_own_is_any_host() -> None:
    runners = {"a": HostFilter(models=("x",)), ANY_HOST: HostFilter(phases=("e0",))}
    assert filter_for_host("a", runners).models == ("x",)
    assert filter_for_host("b", runners).phases == ("e0",)
    assert str(filter_for_host("c", {})) == "everything"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("RUN = [", "NO = [", "not how one of them is run"),
        ("reruns=1", "reruns=0", r"PHASES[0].reruns must be a whole number from 1"),
        ("configs=list(CONFIGURATIONS.values())", "configs=[]", "PHASES[1].configs is empty"),
        ('levels=["beet", "carrot-hard"]', "levels=[3.5]", "PHASES[1].levels: 3.5 has no name"),
        ('phase="phase2"', 'phase="phase1"', "stands twice"),
        ("RunnerConfig(allowed_models", "dict(allowed_models", "must be a RunnerConfig"),
        ('RunnerConfig(phase="phase1"', 'RunnerConfig(phase="phase3"', "did you mean"),
        ("--level", "--{levle}", "no field {levle}"),
    ],
)
def test_what_cannot_be_a_phase_is_reported(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert SETTINGS.count(old) == 1 or old == "--level"
    with pytest.raises(CampaignError) as caught:
        load_campaign(settings(tmp_path, SETTINGS.replace(old, new)))
    assert message in str(caught.value)


def test_a_campaign_beside_the_phases_says_the_rest(tmp_path: Path) -> None:
    text = SETTINGS + 'campaign = {"campaign": "lab", "defaults": {"limits": {"tries": 5}}}\n'
    campaign = load_campaign(settings(tmp_path, text))
    assert campaign.name == "lab"
    assert {cell.limits.tries for cell in campaign.matrix.expand()} == {5}


def test_a_callable_gets_its_level_and_other_benchmarks_have_it_as_subset(
    tmp_path: Path,
) -> None:
    (tmp_path / "play.py").write_text("def play(adapter, level):\n    return 1.0\n")
    text = SETTINGS.replace("RUN = [", 'BENCHMARK = {"python": {"call": "play:play"}}\nNO = [')
    text += """
MODELS = {
    "Deepseek-Coder-V2-16B-Q8": {"adapter": "mock", "model_kwargs": {"answer": "8"}},
    "Deepseek-Coder-V2-16B-Q4": {"adapter": "mock", "model_kwargs": {"answer": "4"}},
}
"""
    cells = load_campaign(settings(tmp_path, text)).matrix.expand()
    assert cells[0].workload.params["params"] == {"level": "carrot-easy_detailed"}
