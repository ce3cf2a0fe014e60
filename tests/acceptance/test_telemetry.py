"""What a run measures, what it cost, and what Prometheus reads of it, as a user meets them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from .conftest import User, well

SLOW = """\
campaign: study
matrix:
  models: [{name: toy, adapter: mock}]
  benchmarks: [{_hostile: {samples: 4, seconds: 0.1}}]
"""
LEAKS = """\
campaign: study
defaults: {repeats: 12}
matrix:
  models: [{name: toy, adapter: mock}]
  benchmarks: [{python: {name: leaks, call: "leaks:run"}}]
"""
_LEAKS = """\
import sys
def run(model):
    sys.kept = getattr(sys, "kept", [])
    sys.kept.append(bytearray(b"x") * 300_000_000)
    return 1.0
"""


def sealed(user: User) -> dict[str, Any]:
    (content,) = user.published().values()
    found: dict[str, Any] = json.loads(content)
    return found


def test_a_result_tells_what_its_gpu_did_and_what_it_cost(
    user: User, gpus: Callable[..., None]
) -> None:
    gpus(well(0, power=300.0, utilisation=88, temperature=61))
    (user.folder / "machines.yaml").write_text("here: {gpus: [0], price: $7.2/gpu/h}\n")
    user.write(SLOW)
    output = user.run("run", "study.yaml", "--machines", "machines.yaml").stdout
    assert "1 attempt · " in output
    assert "GPU-hours" in output
    cell = sealed(user)
    (measured,) = cell["telemetry"]["gpus"]
    assert measured["power_watts"] == {"mean": 300, "peak": 300}
    assert measured["memory_bytes"]["peak"] == 10**9
    energy = cell["telemetry"]["energy"]
    assert energy["valid"]
    assert energy["joules"] == pytest.approx(300 * cell["telemetry"]["seconds"], rel=0.01)
    assert cell["usage"]["cost"] == pytest.approx(7.2 / 3600 * cell["usage"]["seconds"])
    assert cell["telemetry"]["ram_bytes"]["peak"] > 10**6
    summary = json.loads((user.results / "execution_summary.json").read_text())
    (use,) = summary["devices"].values()
    assert use["energy_joules"] == energy["joules"]
    assert use["gpu_hours"] == pytest.approx(cell["usage"]["seconds"] / 3600)
    assert use["gpu_memory_bytes"] == cell["usage"]["gpu_memory"]
    (listed,) = summary["cells"]
    (path,) = user.published()
    metrics = json.loads((user.results / path / "metrics.json").read_text())
    assert (listed["cell"], listed["state"], listed["device"]) == (path, "success", "gpu:0")
    assert listed["overall_score"] == metrics["overall_score"]
    assert summary["used"]["cost"] == {"$": pytest.approx(cell["usage"]["cost"])}
    assert "used     1 attempt" in user.run("status", "study.yaml").stdout
    assert user.json("status", "study.yaml")["used"]["energy_joules"] == energy["joules"]


def test_a_gpu_that_tells_no_power_has_no_energy_and_no_zero(
    user: User, gpus: Callable[..., None]
) -> None:
    gpus(well(0))
    user.write(SLOW)
    user.run("run", "study.yaml", "--gpus", "0")
    telemetry = sealed(user)["telemetry"]
    assert "power_watts" not in telemetry["gpus"][0]
    assert telemetry["energy"] == {
        "valid": False,
        "reason": "gpu:0 did not report its power at 0.0 s",
        "joules": None,
    }


def test_on_the_cpu_no_message_mentions_gpus(user: User) -> None:
    user.write(SLOW)
    user.run("run", "study.yaml", "--cpu-slots", "1")
    cell = sealed(user)
    assert {"gpus", "energy"}.isdisjoint(cell["telemetry"])
    assert {"gpus", "joules", "cost"}.isdisjoint(cell["usage"])
    assert "cpu_cores" in cell["telemetry"]


def test_metrics_are_kept_in_a_file_that_prometheus_reads(user: User) -> None:
    user.write(SLOW)
    user.run("run", "study.yaml", "--cpu-slots", "1", "--metrics-file", "study.prom")
    text = (user.folder / "study.prom").read_text()
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    found = {(s.name, *s.labels.values()): s.value for s in samples}
    assert found["benchfleet_cells", "study", "success"] == 1


def test_memory_that_cells_leave_behind_is_reported_and_the_slot_replaced(user: User) -> None:
    if sys.platform != "linux":
        pytest.skip("counts RAM as Linux does")
    user.write(LEAKS)
    (user.folder / "leaks.py").write_text(_LEAKS)
    output = user.run("run", "study.yaml", "--cpu-slots", "1").stdout.replace("\n", " ")
    assert "RAM of the slot grows from cell to cell" in output
    assert "GiB behind in this slot" in output
    assert len(user.published()) == 12


def test_a_wrong_price_is_reported_with_its_place(user: User) -> None:
    user.write("price: cheap\n" + SLOW)
    output = user.run("run", "study.yaml", code=2).stderr
    assert "line 1" in output
    assert "'cheap' is not a price" in output
