from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from benchfleet.errors import BenchfleetError
from benchfleet.machines.probe import report
from benchfleet.machines.probe.recommend import largest_memory, sizes_that_fit
from benchfleet.machines.probe.schema import report_schema
from capabilities import BOARD, BOX, LAPTOP, fleet, reported


@pytest.mark.parametrize("output", fleet(), ids=lambda output: output["hostname"])
def test_a_report_has_both_forms_and_is_read_back(output: dict[str, Any]) -> None:
    Draft202012Validator(report_schema()).validate(output)
    found = report.read(json.loads(json.dumps(output)), "it")
    assert found.hostname == output["hostname"]
    assert found.facts["ram_available"] == output["results"]["memory"]["available"]
    assert len(found.gpus) == len(output["results"]["gpu"]["devices"])


def test_the_short_form_alone_is_read_too() -> None:
    output = reported("board", BOARD)
    found = report.read({key: output[key] for key in ("timestamp", "hostname", "system")}, "it")
    assert found.facts["ram_available"] == 3_400_000_000
    assert found.facts["disk_free"] == 20_000_000_000


def test_a_gpu_that_is_not_well_is_no_gpu() -> None:
    results = deepcopy(BOX)
    results["gpu"]["devices"][0]["health"] = "it does not answer (NVML: GPU is lost)"
    results["gpu"]["devices"][1]["split"] = True
    output = reported("box", results)
    assert report.read(output, "it").facts["gpus"] == 6
    assert any(line.startswith("GPU 0 cannot be used") for line in output["warnings"])


@pytest.mark.parametrize("value", ["lots", -2, True, float("nan"), float("inf"), [1]])
@pytest.mark.parametrize(
    ("section", "key"),
    [
        ("memory", "available"),
        ("storage", "free"),
        ("cpu", "cores"),
        ("benchmark", "gflops"),
        ("network", "speed"),
    ],
)
def test_a_value_that_is_no_sensible_number_is_rejected_by_its_key(
    section: str, key: str, value: Any
) -> None:
    output = deepcopy(reported("box", BOX))
    output["results"].setdefault(section, {})[key] = value
    with pytest.raises(BenchfleetError, match=rf"^it .*results\.{section}\.{key} is "):
        report.read(output, "it")


@pytest.mark.parametrize(
    ("output", "wrong"),
    [
        ([], "holds no mapping"),
        ({}, "is an incomplete capability report: it names no hostname"),
        ({"hostname": "../etc", "system": {"cpu_count": 1, "ram_total_gb": 2}}, "is an incomplete"),
        ({"hostname": "a"}, "tells no memory or no cores"),
        ({"hostname": "a", "system": {"cpu_count": 1, "ram_total_gb": "much"}}, "is an incomplete"),
    ],
)
def test_what_is_no_report_is_refused_by_name(output: Any, wrong: str) -> None:
    with pytest.raises(BenchfleetError, match=wrong):
        report.read(output, "a file")


def test_a_report_of_a_newer_form_is_refused_and_its_version_named() -> None:
    output = reported("laptop", LAPTOP)
    output["metadata"]["report_version"] = "2.7"
    assert report.read(output, "r.json").hostname == output["hostname"]
    for version in ("3.0", 99):
        output["metadata"]["report_version"] = version
        with pytest.raises(BenchfleetError, match=rf"r\.json is a report of version {version}, "):
            report.read(output, "r.json")


def test_reports_are_written_whole_and_the_newest_of_a_host_counts(tmp_path: Path) -> None:
    file = report.write(tmp_path, reported("board", BOARD))
    assert file.name == "capability_report_board.json"
    assert [one.name for one in tmp_path.iterdir()] == [file.name]
    newer = {**reported("board", LAPTOP), "timestamp": "2027-01-01T00:00:00+00:00"}
    (tmp_path / "older").mkdir()
    (tmp_path / "older" / "x.json").write_text(json.dumps(newer))
    (found,) = report.newest(report.read_files([tmp_path / "older" / "x.json", tmp_path]))
    assert found.facts["ram_total"] == 8_200_000_000


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_a_place_without_a_report_is_an_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "capability_report_a.json").write_text(text)
    with pytest.raises(BenchfleetError, match="capability_report"):
        report.newest(report.read_files([tmp_path]))
    with pytest.raises(BenchfleetError, match="gone not found; `benchfleet probe` makes reports"):
        report.read_files([tmp_path / "gone"])


def test_the_largest_model_that_fits_is_recommended_at_each_precision() -> None:
    assert sizes_that_fit(3_400_000_000, on_gpu=False) == [
        "1B at 16 bits",
        "1.5B at 8 bits",
        "3B at 4 bits",
    ]
    assert sizes_that_fit(80 * 10**9, on_gpu=True)[0] == "32B at 16 bits"
    assert sizes_that_fit(10**8, on_gpu=False) == []
    assert largest_memory(5, [3, 9]) == (9, True)
    assert largest_memory(5, []) == (5, False)
