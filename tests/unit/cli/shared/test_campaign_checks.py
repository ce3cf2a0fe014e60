"""What `doctor` finds of a campaign, its models and ledger, and the hosts of its inventory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.cli.main import parser_of
from benchfleet.cli.shared import campaign_checks as checks
from benchfleet.cli.verbs.hosts_check import HostCheck
from benchfleet.domain.cell import Cell
from benchfleet.domain.host import Host
from benchfleet.engines.diagnosis import Diagnosis
from benchfleet.errors import BenchfleetError
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.machines.checkup import Check
from benchfleet.testing import sample_cell

CAMPAIGN = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  benchmarks: [mock_benchmark]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, where the campaign is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    return tmp_path


def found(text: str, *words: str) -> dict[str, Check]:
    """The checks of a campaign by what they are of, the last of each."""
    Path("study.yaml").write_text(text)
    line = ["doctor", "study.yaml", *words]
    return {one.what: one for one in checks.campaign_checks(parser_of(line).parse_args(line))}


def test_every_mistake_of_the_file_is_named_with_its_line() -> None:
    Path("study.yaml").write_text(
        CAMPAIGN.replace("mock}", "mok}").replace("campaign:", "campain:")
    )
    line = ["doctor", "study.yaml"]
    listed = [*checks.campaign_checks(parser_of(line).parse_args(line))]
    assert {one.level for one in listed} == {"problem"}
    assert [one.finding.partition(":")[0] for one in listed] == [
        "line 1, campain",
        "line 1, campaign",
        "line 3, matrix.models[0].adapter",
    ]
    assert "fix it in" in listed[0].fix
    assert "study.yaml" in listed[0].fix


def test_a_ledger_without_campaigns_is_a_problem(folder: Path) -> None:
    line = ["doctor", "--ledger", "sqlite:none.db"]
    (only,) = checks.campaign_checks(parser_of(line).parse_args(line))
    assert (only.what, only.level) == ("ledger", "problem")
    assert "none.db" in only.finding


def of_ledger(cell: Cell) -> dict[str, Check]:
    """The checks of a campaign that only a ledger has, by what they are of."""
    with closing(SqliteLedger(Path("ledger.db"), campaign="study")) as ledger:
        ledger.enroll([cell])
    line = ["doctor", "--ledger", "sqlite:ledger.db"]
    return {one.what: one for one in checks.campaign_checks(parser_of(line).parse_args(line))}


def test_a_hub_model_that_is_not_cached_is_a_problem_only_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cell = sample_cell(model="m1", source="owner/name", digest="a" * 40, benchmark="mock_benchmark")
    cell = replace(cell, model=replace(cell.model, adapter="transformers"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    online = of_ledger(cell)["model m1"]
    assert (online.level, online.finding) == (
        "ok",
        f"owner/name@{'a' * 40} is not cached yet; it is downloaded when needed",
    )
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    offline = of_ledger(cell)["model m1"]
    assert offline.level == "problem"
    assert "HF_HUB_OFFLINE is set" in offline.finding


def test_an_interpreter_that_cannot_be_executed_is_a_problem(folder: Path) -> None:
    python = folder / "python"
    python.touch()
    model = of_ledger(sample_cell(model="m1", python=str(python), benchmark="mock_benchmark"))
    assert model["model m1"].level == "problem"
    assert model["model m1"].finding == f"its interpreter {python} cannot be executed"


def test_a_ledger_on_a_network_file_system_is_a_problem(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "mount_table", lambda: f"server:/home {folder} nfs4 rw 0 0\n")
    ledger = found(CAMPAIGN)["ledger"]
    assert ledger.level == "problem"
    assert "is on a network file system (nfs4)" in ledger.finding


def test_many_cells_that_cannot_run_here_are_counted() -> None:
    models = ", ".join(f"{{name: m{n}, adapter: mock, needs: {{gpus: 8}}}}" for n in range(5))
    of = found(CAMPAIGN.replace("{name: m1, adapter: mock}", models), "--cpu-slots", "1")
    assert sum(name.startswith("cell ") for name in of) == 3
    assert of["cells"].finding == "2 more cells cannot run here"


HOSTS = "hosts: [{name: lab1}, {name: lab2}]\n"


def of_hosts(monkeypatch: pytest.MonkeyPatch, *results: HostCheck) -> list[Check]:
    """What is found of the machines, whose checks end like this."""

    @contextmanager
    def connected(known: object) -> Iterator[None]:
        yield

    monkeypatch.setattr(checks, "connections", connected)
    monkeypatch.setattr(checks, "on_all", lambda hosts, call: list(results))
    Path("machines.yaml").write_text(HOSTS)
    line = ["doctor", "--machines", "machines.yaml"]
    return [*checks.host_checks(parser_of(line).parse_args(line))]


def test_a_host_is_a_problem_with_the_command_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    lab1, lab2 = Host(name="lab1"), Host(name="lab2")
    first, second, note = of_hosts(
        monkeypatch,
        HostCheck(
            host=lab1, trouble=Diagnosis(stage="benchfleet", message="not there", hopeless=True)
        ),
        HostCheck(
            host=lab2,
            trouble=Diagnosis(stage="network", message="refused", hopeless=False),
            notes=("its clock is wrong",),
        ),
    )
    assert (first.what, first.level, first.finding) == (
        "host lab1",
        "problem",
        "benchfleet: not there",
    )
    assert first.fix == "benchfleet hosts bootstrap machines.yaml --hosts lab1"
    assert second.fix == "benchfleet hosts check machines.yaml --hosts lab2"
    assert second.level == "problem"
    assert (note.what, note.level, note.finding) == ("host lab2", "warning", "its clock is wrong")


def test_a_host_whose_own_python_has_no_benchfleet_is_not_to_be_bootstrapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(name="lab1", python="/x/python")
    trouble = Diagnosis(stage="benchfleet", message="not there", hopeless=True)
    (found,) = of_hosts(monkeypatch, HostCheck(host=host, trouble=trouble))
    assert found.fix == "benchfleet hosts check machines.yaml --hosts lab1"


def test_a_host_is_a_warning_where_another_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Diagnosis(stage="network", message="refused", hopeless=False)
    [first] = of_hosts(
        monkeypatch,
        HostCheck(host=Host(name="lab1"), trouble=absent),
        HostCheck(host=Host(name="lab2")),
    )
    assert (first.what, first.level) == ("host lab1", "warning")
    assert first.fix == "benchfleet hosts check machines.yaml --hosts lab1"


def test_machines_that_cannot_be_asked_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(known: object) -> None:
        raise BenchfleetError("no ssh here")

    monkeypatch.setattr(checks, "connections", refuse)
    Path("machines.yaml").write_text(HOSTS)
    line = ["doctor", "--machines", "machines.yaml"]
    (one,) = checks.host_checks(parser_of(line).parse_args(line))
    assert (one.what, one.level, one.finding) == ("hosts", "problem", "no ssh here")
    Path("machines.yaml").write_text("hosts: 3\n")
    (one,) = checks.host_checks(parser_of(line).parse_args(line))
    assert (one.what, one.level, one.fix) == ("machines", "problem", "fix it in machines.yaml")
    Path("machines.yaml").write_text("here: {cpu_slots: 1}\n")
    assert [*checks.host_checks(parser_of(line).parse_args(line))] == []
