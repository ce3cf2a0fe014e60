"""What is no result, or says what cannot be: left out by its name, and the others are taken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchfleet.ledger.base import Ledger
from benchfleet.results.layout import Layout
from benchfleet.runner.recovery.rebuild import rebuild
from benchfleet.runner.resources.local_host import LocalHost
from benchfleet.testing import sample_cell

from .conftest import published, states

GONE = object()


@pytest.mark.parametrize(
    ("place", "wrong", "why"),
    [
        ("cell config attention", [[1]], "not enough values"),
        ("metrics", {}, "overall_score"),
        ("metrics overall_score", float("inf"), "finite"),
        ("metrics", [1.0], "not as it must be"),
        ("cell need gpus", "many", "whole numbers"),
        ("provenance", "mine", "not as it must be"),
        ("files", ["metrics.json"], "not as it must be"),
        ("files ../../../../secret", "0" * 64, "is not a file of its folder"),
        ("format", 99, "results format 99"),
        ("cell", None, "not as it must be"),
        ("fingerprint", "0" * 64, "fingerprint"),
        ("metrics", GONE, "metrics"),
    ],
)
def test_a_wrong_cell_json_is_left_out_by_name_and_the_others_are_taken(
    ledger: Ledger, layout: Layout, place: str, wrong: Any, why: str
) -> None:
    good, _ = published(layout, sample_cell(1))
    bad, _ = published(layout, sample_cell(2))
    file = layout.published(bad) / "cell.json"
    content = json.loads(file.read_text())
    *way, name = place.split()
    part = content
    for step in way:
        part = part[step]
    part[name] = wrong
    if wrong is GONE:
        del part[name]
    file.write_text(json.dumps(content))
    output = rebuild(ledger, layout, LocalHost())
    assert [path for path, _ in output.refused] == [bad]
    assert why in output.refused[0][1]
    assert states(ledger) == {good: "success"}


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, "\xff"])
def test_a_cell_json_that_is_none_is_left_out_by_name(
    ledger: Ledger, layout: Layout, text: str
) -> None:
    path, _ = published(layout, sample_cell())
    (layout.published(path) / "cell.json").write_bytes(text.encode("latin-1"))
    output = rebuild(ledger, layout, LocalHost())
    assert [path for path, _ in output.refused] == [path]
    assert states(ledger) == {}
