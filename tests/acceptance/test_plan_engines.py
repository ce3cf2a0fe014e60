"""Plans and results of campaigns whose machines are those of an engine."""

from __future__ import annotations

import pytest

from benchfleet import registry
from benchfleet.cli.main import main

from .conftest import User

ON_RAY = """\
campaign: study
engine: {ray: {address: "127.0.0.1:9"}}
matrix:
  models: [{name: m, adapter: mock, needs: {gpus: 1}}]
  benchmarks: [_hostile: {samples: 1}]
"""


def test_cells_for_machines_of_an_engine_are_not_measured_by_this_one(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    user.write(ON_RAY)
    plan = user.run("plan", "study.yaml").stdout
    assert "on machines of the engine ray; a run shows what they have" in plan
    assert "cannot run" not in plan
    assert "CPU slots" not in plan
    checks = user.run("doctor", "study.yaml").stdout
    assert "those of the engine ray, which a run connects to" in checks
    here = user.run("plan", "study.yaml", "--cpu-slots", "1").stdout
    assert "needs 1 GPU, this run has 0" in here


def test_results_of_an_engine_whose_package_is_absent_can_be_read(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ON_RAY.replace(", needs: {gpus: 1}", "")
    user.write("\n".join(line for line in text.splitlines() if "engine" not in line))
    user.run("run", "study.yaml", "--cpu-slots", "1")
    user.write(text)
    monkeypatch.setattr(registry, "find_spec", lambda package: None)
    monkeypatch.chdir(user.folder)
    for verb in ("status", "report", "verify", "failures"):
        assert main([verb, "study.yaml"]) == 0, verb
    assert main(["plan", "study.yaml"]) == 0
    assert main(["run", "study.yaml"]) == 2
