"""What is no result, or says what cannot be: left out by its name, and the others are taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from benchfleet.ledger.base import Ledger
from benchfleet.results.layout import Layout
from benchfleet.runner.mending.rebuild import rebuild
from benchfleet.testing import sample_cell

from .conftest import published, states


def other_attention(content: dict[str, Any]) -> None:
    content["cell"]["config"]["attention"] = [[1]]


def no_metrics(content: dict[str, Any]) -> None:
    del content["metrics"]


def no_headline(content: dict[str, Any]) -> None:
    content["metrics"] = {}


def endless_headline(content: dict[str, Any]) -> None:
    content["metrics"]["overall_score"] = float("inf")


def metrics_without_names(content: dict[str, Any]) -> None:
    content["metrics"] = [1.0]


def needs_in_words(content: dict[str, Any]) -> None:
    content["cell"]["need"]["gpus"] = "many"


def provenance_in_words(content: dict[str, Any]) -> None:
    content["provenance"] = "mine"


def files_without_digests(content: dict[str, Any]) -> None:
    content["files"] = ["metrics.json"]


def file_outside(content: dict[str, Any]) -> None:
    content["files"]["../../../../secret"] = "0" * 64


def newer_format(content: dict[str, Any]) -> None:
    content["format"] = 99


def nothing_of_a_cell(content: dict[str, Any]) -> None:
    content["cell"] = None


def other_fingerprint(content: dict[str, Any]) -> None:
    content["fingerprint"] = "0" * 64


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (other_attention, "not enough values"),
        (no_metrics, "metrics"),
        (no_headline, "overall_score"),
        (endless_headline, "finite"),
        (metrics_without_names, "not as it must be"),
        (needs_in_words, "whole numbers"),
        (provenance_in_words, "not as it must be"),
        (files_without_digests, "not as it must be"),
        (file_outside, "is no file of its folder"),
        (newer_format, "results format 99"),
        (nothing_of_a_cell, "not as it must be"),
        (other_fingerprint, "fingerprint"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_wrong_cell_json_is_left_out_by_name_and_the_others_are_taken(
    ledger: Ledger, layout: Layout, edit: Callable[[dict[str, Any]], None], why: str
) -> None:
    good, _ = published(layout, sample_cell(1))
    bad, _ = published(layout, sample_cell(2))
    file = layout.published(bad) / "cell.json"
    content = json.loads(file.read_text())
    edit(content)
    file.write_text(json.dumps(content))
    told = rebuild(ledger, layout)
    assert [path for path, _ in told.refused] == [bad]
    assert why in told.refused[0][1]
    assert states(ledger) == {good: "success"}


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, "\xff"])
def test_a_cell_json_that_is_none_is_left_out_by_name(
    ledger: Ledger, layout: Layout, text: str
) -> None:
    path, _ = published(layout, sample_cell())
    (layout.published(path) / "cell.json").write_bytes(text.encode("latin-1"))
    told = rebuild(ledger, layout)
    assert [path for path, _ in told.refused] == [path]
    assert states(ledger) == {}
