"""What adapters refuse of a matrix, and where in the file it is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.campaign.benchmarks import read_benchmarks
from benchfleet.campaign.capability_check import check_pairs, leaves_cells
from benchfleet.campaign.configs import read_configs
from benchfleet.campaign.defaults import Defaults, read_defaults
from benchfleet.campaign.entry import Entry
from benchfleet.campaign.models import read_models
from benchfleet.domain.cell import Config, Model, Workload
from benchfleet.domain.matrix import Include, Matrix, ModelEntry, Rule

from .reading import mistakes_of, read


def _checked(text: str, *exclude: Rule) -> Entry:
    """What the adapters of the models in `text` have against the rest of it."""
    top = read(text)
    defaults: Defaults = read_defaults(top.inside("defaults"))
    models = read_models(top.inside("models"), defaults, Path("/study"))
    configs = read_configs(top.inside("configs"), defaults)
    workloads = read_benchmarks(top.inside("benchmarks"), defaults)
    matrix = Matrix(
        models=tuple(one.model for one in models if one.model),
        configs=tuple(one.config for one in configs if one.config),
        workloads=tuple(one.workload for one in workloads if one.workload),
        exclude=exclude,
    )
    check_pairs(matrix, models, configs, workloads, top.inside("defaults"))
    return top


def test_a_model_that_its_adapter_refuses_is_reported_at_the_model() -> None:
    top = _checked(
        """
        models: [{name: m, adapter: mock, model_kwargs: {answr: x}}]
        configs: {dense: null}
        benchmarks: [recall]
        """,
    )
    assert list(mistakes_of(top)) == ["models[0]"]
    assert "not answr" in mistakes_of(top)["models[0]"]


@pytest.mark.parametrize(
    ("benchmark", "mistakes"), [("recall", 1), ("command: {name: own, argv: [echo]}", 0)]
)
def test_a_folder_without_a_tokenizer_is_refused_where_its_model_is_loaded(
    tmp_path: Path, benchmark: str, mistakes: int
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    top = _checked(
        f"""
        models: [{{name: m, adapter: transformers, path: {tmp_path}}}]
        configs: {{dense: null, windows: {{attention: {{local: 8}}}}}}
        benchmarks: [{benchmark}]
        """,
    )
    found = mistakes_of(top)
    assert len(found) == mistakes
    assert all("holds no tokenizer" in message for message in found.values())


def test_a_rounded_cache_is_refused_where_the_adapter_has_none() -> None:
    top = _checked(
        """
        models: [{name: m, adapter: mock}]
        configs: {dense: null, small: {kv_cache: int8}}
        benchmarks: [recall]
        """,
    )
    ((key, message),) = mistakes_of(top).items()
    assert key == "configs.small"
    assert "cannot round keys and values; leave kv_cache out" in message


NONE = """
models: [{name: m, adapter: mock}, {name: served, adapter: none}]
configs: {dense: null}
benchmarks: [recall, command: {name: mine, argv: [echo]}]
"""


def test_an_adapter_that_opens_nothing_is_refused_where_a_model_is_needed() -> None:
    assert mistakes_of(_checked(NONE)) == {
        "benchmarks[0]": "recall needs a model, and the adapter 'none' opens none "
        "(model 'served'); change it, or exclude the pair"
    }


def test_a_pair_that_is_excluded_is_not_refused() -> None:
    excluded = Rule(models=("served",), benchmarks=("recall",))
    assert mistakes_of(_checked(NONE, excluded)) == {}


_MATRIX = Matrix(
    models=(ModelEntry(model=Model(name="m", adapter="mock", source="m", digest="d")),),
    configs=(Config(name="dense"), Config(name="sparse")),
    workloads=(Workload(benchmark="recall", version="1"),),
)


@pytest.mark.parametrize(
    ("exclude", "include", "left"),
    [
        ((), (), True),
        ((Rule(configs=("dense",)),), (), True),
        ((Rule(models=("m",)),), (), False),
        ((Rule(models=("m",)),), (Include(rule=Rule(configs=("sparse",)), repeats=1),), True),
    ],
)
def test_rules_may_not_leave_nothing(
    exclude: tuple[Rule, ...], include: tuple[Include, ...], left: bool
) -> None:
    matrix = Matrix(
        models=_MATRIX.models,
        configs=_MATRIX.configs,
        workloads=_MATRIX.workloads,
        exclude=exclude,
        include=include,
    )
    assert leaves_cells(matrix) is left
    assert bool(matrix.expand()) is left
