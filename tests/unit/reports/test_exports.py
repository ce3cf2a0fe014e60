"""The comparison as CSV and JSON, read back."""

from __future__ import annotations

import csv
import io
import json

import pytest

from benchfleet.reports.exports import COLUMNS, to_csv, to_json
from benchfleet.reports.tables import Comparison

from .conftest import Study, present


def rows(comparison: Comparison) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(comparison))))


def test_csv_has_a_row_for_each_entry_and_every_number_unrounded(demo: Study) -> None:
    comparison = demo.compared()
    found = rows(comparison)
    assert len(found) == len(comparison.entries) == 15
    for row, entry in zip(found, comparison.entries, strict=True):
        assert (row["model"], row["config"], row["benchmark"]) == (
            entry.model,
            entry.config,
            entry.benchmark,
        )
        assert float(row["mean"]) == entry.mean
        assert float(row["stderr"]) == entry.stderr
        assert int(row["samples"]) == entry.samples
        speed = "50.0" if entry.config == "dense" else ""
        assert (row["density"], row["tokens_per_second"]) == ("0.25", speed)
        assert (row["repeats"], row["success"], row["failed"]) == ("2", "2", "0")


def test_csv_states_the_difference_its_interval_and_whether_it_is_sure(demo: Study) -> None:
    comparison = demo.compared()
    (row,) = [
        r for r in rows(comparison) if (r["config"], r["benchmark"]) == ("top_k", "recall_512")
    ]
    found = present(comparison.entry_at["tiny-recall", "top_k", "recall_512"].difference)
    assert row["baseline"] == "dense"
    assert float(row["difference"]) == found.difference
    assert float(row["difference_stderr"]) == found.stderr
    assert (float(row["difference_low"]), float(row["difference_high"])) == found.interval
    assert int(row["difference_n"]) == found.n
    assert (float(row["p_value"]), float(row["adjusted_p"])) == (found.p_value, found.adjusted_p)
    assert row["sure"] == "false"


def test_csv_leaves_empty_what_is_not_known(study: Study) -> None:
    study.done("dense", [1, 0])
    study.failed("window")
    dense, window = rows(study.compared())
    assert [dense[name] for name in COLUMNS if name.startswith("difference")] == [""] * 5
    assert dense["sure"] == ""
    assert (window["mean"], window["stderr"], window["failed"]) == ("", "", "1")


@pytest.mark.parametrize("name", ["=1+1", "+sink", "-1", "@x"])
def test_a_spreadsheet_computes_no_name(study: Study, name: str) -> None:
    study.done(name, [-1, -2])
    (row,) = rows(study.compared())
    assert row["config"] == row["baseline"] == f"'{name}"
    assert row["mean"] == "-1.5"


def test_csv_keeps_hostile_names_in_their_field(study: Study) -> None:
    study.done('a,"b"\u2028c', [1, 0])
    (row,) = rows(study.compared())
    assert row["config"] == 'a,"b" c'


def test_json_is_the_whole_comparison_under_its_name(demo: Study) -> None:
    comparison = demo.compared()
    found = json.loads(to_json(comparison, title="study"))
    assert found.pop("campaign") == "study"
    assert [*found] == [name for name, _ in comparison.values()]
    assert len(found["entries"]) == 15
