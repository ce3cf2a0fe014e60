"""Cells as the texts of a row, and rows as records."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Config, field_values
from benchfleet.domain.hardware import Hardware
from benchfleet.domain.resource import Need
from benchfleet.ledger.serialization import CellSerializer, parse_cell, parse_record
from benchfleet.testing import sample_cell

A100 = Hardware(name="any", gpu="A100")
CELL = sample_cell(gpus=1, priority=3, outside={"timeout": "1h"})
ROW = ("f" * 64, "a/b/c", "a/b/c", "success", 2, 1, 4, "me", None, None)


def test_the_text_of_what_a_cell_is_never_changes_its_spelling() -> None:
    """Ledgers that exist hold it."""
    assert CellSerializer().spec(CELL) == (
        '{"model": {"name": "tiny", "adapter": "mock", "digest": "digest of tiny",'
        ' "model_kwargs": {}, "tokenizer_kwargs": {}},'
        ' "config": {"name": "dense", "attention": [], "everywhere": false},'
        ' "workload": {"benchmark": "benchmark-0", "version": "1", "subset": null, "params": {},'
        ' "data_digest": "", "generation": {}, "batch_size": 1, "limit": null, "called": ""},'
        ' "repeat": 0, "repeats": false}'
    )


def test_the_terms_of_a_cell_are_what_neither_names_nor_identifies_it() -> None:
    assert json.loads(CellSerializer().terms(CELL)) == {
        "need": {"gpus": 1, "vram": 0},
        "limits": field_values(CELL.limits),
        "priority": 3,
        "model": {"source": "models/tiny", "python": ""},
        "workload": {"outside": {"timeout": "1h"}},
    }


def test_a_cell_comes_back_from_its_texts_as_it_was() -> None:
    texts = CellSerializer()
    steps = (
        AttentionStep(name="sink", version=2),
        AttentionStep(name="local"),
        AttentionStep(
            name="hash_attention", params={"weights": "w"}, version=1, digests={"weights": "d"}
        ),
    )
    model = replace(CELL.model, adapter_version=3, outside={"address": "here"})
    for cell in (
        CELL,
        replace(CELL, model=model, config=Config(name="c", attention=steps, mode="fast")),
        replace(CELL, config=Config(name="c", kv_cache="int4")),
        replace(CELL, need=Need(hardware=(A100, Hardware(name="h", gpu="H100")))),
        replace(
            CELL,
            need=replace(CELL.need, hardware=(A100,)),
            workload=replace(CELL.workload, measures_speed=True),
        ),
    ):
        back = parse_cell(texts.spec(cell), texts.terms(cell))
        assert back.to_dict() == cell.to_dict()


@pytest.mark.parametrize(
    ("url", "stored", "endpoint"),
    [
        ("http://lab2:8000/v1", "true", "lab2:8000"),
        ("", "true", "unknown"),
        ("http://lab2:8000/v1", "false", ""),
    ],
)
def test_an_earlier_ledger_has_no_name_of_a_server_but_whether_there_is_one(
    url: str, stored: str, endpoint: str
) -> None:
    cell = replace(CELL, model=replace(CELL.model, outside={"url": url} if url else {}))
    terms = CellSerializer().terms(cell).replace('"vram": 0', f'"vram": 0, "endpoint": {stored}')
    back = parse_cell(CellSerializer().spec(cell), terms)
    assert f'"endpoint": {stored}' in terms
    assert back.need == replace(cell.need, endpoint=endpoint)


def test_parts_that_cells_share_are_distinguished_from_equal_looking_ones() -> None:
    texts = CellSerializer()
    for repeat in range(3):
        for source in ("here", "there"):
            cell = replace(CELL, model=replace(CELL.model, source=source), repeat=repeat)
            back = parse_cell(texts.spec(cell), texts.terms(cell))
            assert (back.model.source, back.repeat) == (source, repeat)


def test_a_record_with_an_outcome_equals_one_that_was_given_it() -> None:
    outcome = Outcome(state="success", digest="abc", metrics={"overall_score": 0.5})
    finished = json.dumps({"attempt": 2, "outcome": outcome.to_dict()})
    record = parse_record((*ROW, finished, None, None), 0.0)
    names = ("fingerprint", "id", "path", "state", "attempt", "tries", "token")
    fields: dict[str, Any] = dict(zip(names, ROW, strict=False))  # the rest is not given
    made = CellRecord(**fields, outcome=outcome)
    assert record == made
    assert made == record
    assert record.outcome == outcome
    assert record != replace(made, tries=9)
    assert replace(record, tries=9) == replace(made, tries=9)
    assert parse_record((*ROW, None, None, None), 0.0).outcome is None
