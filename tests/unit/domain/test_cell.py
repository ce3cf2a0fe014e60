from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.limits import Limits
from benchfleet.domain.resource import Need

CELL = Cell(
    model=Model(
        name="org/tiny",
        adapter="mock",
        source="/models/tiny",
        digest="d" * 64,
        model_kwargs={"dtype": "float32", "seed": 1},
        tokenizer_kwargs={"use_fast": True},
    ),
    config=Config(
        name="streaming",
        attention=(
            AttentionStep(name="sink", params={"sink_size": 4}),
            AttentionStep(name="local", params={"window_size": 0.1}),
        ),
    ),
    workload=Workload(
        benchmark="recall",
        version="1",
        subset="512",
        params={"samples": 10, "records": 16},
        data_digest="e" * 64,
        generation={"max_new_tokens": 1, "temperature": 0},
        batch_size=4,
    ),
)

_KWARGS = st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=5),
    st.integers() | st.booleans() | st.text(st.characters(codec="utf-8"), max_size=5) | st.none(),
    max_size=4,
)
_NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)
_CELLS = st.builds(
    Cell,
    model=st.builds(
        Model,
        name=_NAMES,
        adapter=_NAMES,
        source=_NAMES,
        digest=_NAMES,
        model_kwargs=_KWARGS,
        tokenizer_kwargs=_KWARGS,
        python=_NAMES,
        adapter_version=st.none() | st.integers(1, 9),
        outside=_KWARGS,
    ),
    config=st.builds(
        Config,
        name=_NAMES,
        attention=st.lists(
            st.builds(
                AttentionStep, name=_NAMES, params=_KWARGS, version=st.none() | st.integers(1, 9)
            ),
            max_size=3,
        ).map(tuple),
        everywhere=st.booleans(),
    ),
    workload=st.builds(
        Workload,
        benchmark=_NAMES,
        version=_NAMES,
        subset=st.none() | _NAMES,
        params=_KWARGS,
        data_digest=_NAMES,
        generation=_KWARGS,
        batch_size=st.integers(1, 64),
        limit=st.none() | st.integers(1, 99),
    ),
    repeat=st.integers(0, 9),
    repeats=st.booleans(),
    need=st.builds(Need, gpus=st.integers(0, 8), vram=st.integers(0, 2**40)),
    limits=st.builds(Limits, cell=st.none() | st.floats(1, 1e6), tries=st.integers(1, 9)),
    priority=st.integers(-9, 9),
)


def _model(**changes: Any) -> Cell:
    return replace(CELL, model=replace(CELL.model, **changes))


def _config(**changes: Any) -> Cell:
    return replace(CELL, config=replace(CELL.config, **changes))


def _work(**changes: Any) -> Cell:
    return replace(CELL, workload=replace(CELL.workload, **changes))


@pytest.mark.parametrize(
    "other",
    [
        _model(adapter="transformers"),
        _model(digest="other"),
        _model(model_kwargs={"dtype": "float32", "seed": 2}),
        _model(tokenizer_kwargs={}),
        _model(adapter_version=1),
        _config(attention=CELL.config.attention[::-1]),
        _config(attention=CELL.config.attention[:1]),
        _config(
            attention=(replace(CELL.config.attention[0], version=1), *CELL.config.attention[1:])
        ),
        _config(attention=(replace(CELL.config.attention[0], digests={"weights": "other"}),)),
        _config(everywhere=True),
        _config(mode="fast"),
        _config(kv_cache="int8"),
        _work(benchmark="other"),
        _work(version="2"),
        _work(subset="1024"),
        _work(subset=None),
        _work(params={"samples": 11, "records": 16}),
        _work(data_digest="other"),
        _work(generation={"max_new_tokens": 2, "temperature": 0}),
        _work(batch_size=8),
        _work(limit=3),
        replace(CELL, repeat=1),
    ],
)
def test_another_content_is_another_cell(other: Cell) -> None:
    assert other.fingerprint != CELL.fingerprint
    assert other != CELL


@pytest.mark.parametrize(
    "same",
    [
        _model(name="another name"),
        _model(source="/elsewhere"),
        _model(python="/venv/bin/python"),
        _model(outside={"address": "http://localhost:8000"}),
        _model(model_kwargs={"seed": 1, "dtype": "float32"}),
        _config(name="another name"),
        _work(params={"records": 16, "samples": 10}),
        _work(outside={"timeout": "1h"}),
        replace(CELL, repeats=True),
        replace(CELL, need=Need(gpus=4)),
        replace(CELL, limits=Limits(cell=3.0, tries=9)),
        replace(CELL, priority=7),
    ],
)
def test_names_places_and_conditions_are_no_content(same: Cell) -> None:
    assert same.fingerprint == CELL.fingerprint
    assert same == CELL
    assert hash(same) == hash(CELL)


def test_everywhere_says_nothing_of_a_dense_config() -> None:
    dense = _config(attention=())
    assert dense == _config(attention=(), everywhere=True)


def test_a_cell_equals_nothing_but_a_cell() -> None:
    assert CELL.fingerprint != CELL


def test_an_id_is_readable_and_names_limit_and_repeat_where_there_are_any() -> None:
    assert CELL.id == "org_tiny/streaming/recall_512"
    assert _work(subset=None).id == "org_tiny/streaming/recall"
    assert _work(limit=5).id == "org_tiny/streaming/recall_512+limit5"
    assert replace(CELL, repeat=2, repeats=True).id == "org_tiny/streaming/recall_512/r2"


def test_a_marked_path_bears_the_fingerprint_before_the_repeat() -> None:
    cell = replace(CELL, repeat=2, repeats=True)
    assert cell.path(marked=False) == cell.id
    mark = cell.fingerprint[:8]
    assert cell.path(marked=True) == f"org_tiny/streaming/recall_512@{mark}/r2"


def test_the_data_seed_follows_benchmark_subset_and_repeat_alone() -> None:
    others = [
        _model(digest="other"),
        _config(attention=()),
        _work(batch_size=9, generation={}, limit=3, version="2"),
    ]
    assert {other.data_seed for other in others} == {CELL.data_seed}
    differing = [_work(subset="128"), _work(benchmark="x"), replace(CELL, repeat=1)]
    assert len({cell.data_seed for cell in [CELL, *differing]}) == 4
    assert 0 <= CELL.data_seed < 2**32


def test_models_share_a_load_key_when_one_loaded_copy_serves_both() -> None:
    assert _model(name="alias").model.load_key == CELL.model.load_key
    assert _model(source="/elsewhere").model.load_key == CELL.model.load_key
    for other in (
        _model(python="/p"),
        _model(model_kwargs={}),
        _model(digest="other"),
    ):
        assert other.model.load_key != CELL.model.load_key


@settings(deadline=None)
@given(_CELLS)
def test_a_cell_comes_back_from_json_as_it_was(cell: Cell) -> None:
    back = Cell.from_dict(json.loads(json.dumps(cell.to_dict())))
    assert back.fingerprint == cell.fingerprint
    assert back.to_dict() == cell.to_dict()
    assert (back.id, back.model.load_key) == (cell.id, cell.model.load_key)


@settings(deadline=None)
@given(_CELLS)
def test_every_path_lies_below_the_campaigns_folder(cell: Cell) -> None:
    for path in (cell.path(marked=False), cell.path(marked=True)):
        parts = path.split("/")
        assert len(parts) == 3 + cell.repeats
        assert all(parts)
        assert not any(part.startswith(".") for part in parts)


def test_a_workload_is_called_by_its_own_name_where_it_has_one() -> None:
    work = Workload(benchmark="command", version="1", subset="easy", called="my-eval", limit=5)
    assert (work.name, work.label) == ("my-eval", "my-eval_easy+limit5")
    assert Workload(benchmark="recall", version="1").name == "recall"


@settings(deadline=None)
@given(_CELLS)
def test_a_fingerprint_is_the_digest_of_the_whole_identity(cell: Cell) -> None:
    assert cell.fingerprint == content_digest(cell.identity())


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (CELL, "9abc5803a87150cba7f0bc656c7f614c94de01c965e84c7aef56d3fe97073c06"),
        (_config(attention=()), "b0e2b23510a99d808adc1c5f0e9dc51c96c32c9d34aca6bc4101f8cc5d0d330f"),
        (
            _config(everywhere=True),
            "703cab12bcac3d055c1e0fc8d42d0af18a6f9b7a7df26a0a289827578c19094c",
        ),
        (
            _work(subset=None, params={"é": ["ü", None, 1.5, True]}, limit=3),
            "d31e2095ec198c2a0f4ea63a4aed17f049bd1605cfd8d45bba18b17e528870f7",
        ),
        (
            _model(model_kwargs={"quote": '"\\\n'}, digest="\u2028"),
            "4e471734ff0f87f1db428696e78f38a1c4b3af9b943adc701fc089f614654a76",
        ),
        (
            replace(CELL, repeat=41, repeats=True),
            "fee598b42334b75fe181dd7078ab64aa0a92093d8b56658f0d74758dd5dc1125",
        ),
    ],
)
def test_a_fingerprint_once_given_stays_the_same_in_every_version(
    cell: Cell, expected: str
) -> None:
    assert cell.fingerprint == expected
