"""A call's arguments become the cells of a campaign, or mistakes under the arguments' names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchfleet.campaign.base import Campaign
from benchfleet.compat.executor.arguments import CALL, Arguments, read_arguments
from benchfleet.compat.executor.values import AdapterConfig, BenchmarkConfig
from benchfleet.domain.cell import Config
from benchfleet.errors import CampaignError
from benchfleet.models.attention.local import Local
from benchfleet.models.attention.sink import Sink
from benchfleet.models.attention.sink_local import Streaming

DENSE = [("dense", None)]
MOCK = AdapterConfig("mock")
RECALL_12X = BenchmarkConfig("recall", ["128", "12x"])
SHORT = {
    "CONFIGS": "sparse_attention_configs",
    "BENCHMARKS": "benchmark_configs",
    "ADAPTER": "adapter_config",
}
EXAMPLE = Path(__file__).parents[3] / "examples" / "recall" / "model"


def _read(
    models: Any = ("m1",),
    configs: Any = DENSE,
    benchmarks: Any = ("mock_benchmark",),
    adapter: Any = MOCK,
    generation: Any = None,
    folder: Path = Path("/here"),
) -> Arguments:
    return read_arguments(folder, models, configs, benchmarks, adapter, generation)


def _campaign(*arguments: Any, **named: Any) -> Campaign:
    return _read(*arguments, **named).campaign(Path("/results"))


def _mistakes(*arguments: Any, **named: Any) -> dict[str, str]:
    with pytest.raises(CampaignError) as caught:
        _campaign(*arguments, **named)
    assert caught.value.file == CALL
    found = {mistake.key: mistake.message for mistake in caught.value.mistakes}
    assert len(found) == len(caught.value.mistakes), caught.value.mistakes
    return found


def _config(config: Any) -> Config:
    (found,) = _campaign(configs=[("c", config)]).matrix.configs
    return found


def test_the_matrix_is_the_product_of_the_arguments() -> None:
    models = [{"name": name, "model_kwargs": {"answer": name}} for name in ("a", "b")]
    configs = [("dense", None), ("streaming", {"streaming": 8})]
    benchmarks = [BenchmarkConfig("recall", ["128", "256"]), BenchmarkConfig("mock_benchmark")]
    campaign = _campaign(models, configs, benchmarks)
    assert len({cell.id for cell in campaign.matrix.expand()}) == 12
    assert campaign.results == Path("/results")


def test_the_earlier_tools_adapter_is_ours() -> None:
    (entry,) = _campaign([EXAMPLE], adapter=AdapterConfig()).matrix.models
    assert entry.model.adapter == "transformers"
    assert entry.model.source == str(EXAMPLE)


def test_kwargs_reach_every_model_and_the_benchmarks_own_generation_lies_beneath() -> None:
    adapter = AdapterConfig("mock", {"answer": "7"}, {"padding_side": "left"})
    campaign = _campaign(adapter=adapter, generation={"max_new_tokens": 3})
    (cell,) = campaign.matrix.expand()
    assert cell.model.model_kwargs == {"answer": "7"}
    assert cell.model.tokenizer_kwargs == {"padding_side": "left"}
    assert cell.workload.generation == {"max_new_tokens": 3, "temperature": 0}


def test_objects_with_names_are_written_by_name() -> None:
    adapter = AdapterConfig(model_kwargs={"torch_dtype": torch.bfloat16, "n": np.int64(3)})
    (entry,) = _campaign([EXAMPLE], adapter=adapter).matrix.models
    assert entry.model.model_kwargs == {"torch_dtype": "bfloat16", "n": 3}
    assert type(entry.model.model_kwargs["n"]) is int


TWINS = [{"name": "m1", "model": "x"}, {"name": "m2", "model": "x"}]


@pytest.mark.parametrize(
    ("config", "steps"),
    [
        (None, []),
        ("dense", []),
        (Sink(sink_size=2), [("sink", {"sink_size": 2})]),
        ({"sink": 2}, [("sink", {"sink_size": 2})]),
        (
            [Sink(sink_size=2), {"local": 8}],
            [("sink", {"sink_size": 2}), ("local", {"window_size": 8})],
        ),
        ((Local(window_size=8),), [("local", {"window_size": 8})]),
        ({"attention": [Local(window_size=8)]}, [("local", {"window_size": 8})]),
        (Streaming(window_size=8), [("streaming", {"window_size": 8, "sink_size": 4})]),
        ({"local": "10%"}, [("local", {"window_size": 0.1})]),
    ],
    ids=str,
)  # fmt: skip
def test_a_config_may_be_written_in_many_ways(config: Any, steps: list[Any]) -> None:
    found = _config(config)
    assert [(step.name, step.params) for step in found.attention] == steps


def test_a_config_may_say_that_it_holds_everywhere() -> None:
    assert _config({"attention": Local(window_size=8), "everywhere": True}).everywhere


def test_a_mapping_of_configs_is_as_good_as_pairs() -> None:
    campaign = _campaign(configs={"dense": None, "window": {"local": 8}})
    assert [config.name for config in campaign.matrix.configs] == ["dense", "window"]


@dataclass
class OwnConfig(BenchmarkConfig):
    """What a user may derive."""

    note: str = ""


@pytest.mark.parametrize(
    "benchmark",
    [
        BenchmarkConfig("recall", ["128"], {"samples": 4}),
        OwnConfig("recall", ("128",), {"samples": np.int32(4)}, note="mine"),
        SimpleNamespace(benchmark_name="recall", subsets=[128], settings={"samples": 4}),
        {"recall": {"subsets": 128, "samples": 4}},
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_benchmark_may_be_anything_with_its_attributes(benchmark: Any) -> None:
    (workload,) = _campaign(benchmarks=[benchmark]).matrix.workloads
    assert (workload.label, workload.params["samples"]) == ("recall_128", 4)


def test_an_adapter_may_be_anything_with_its_attributes() -> None:
    (entry,) = _campaign(adapter=SimpleNamespace(adapter_name="mock")).matrix.models
    assert entry.model.adapter == "mock"


def test_any_iterable_is_a_list() -> None:
    campaign = _campaign((m for m in ["m1"]), iter(DENSE), {"mock_benchmark": None}.keys())
    assert len(campaign.matrix.expand()) == 1


def test_a_folder_with_a_hub_name_keeps_that_name(tmp_path: Path) -> None:
    (tmp_path / "meta-llama" / "Llama-3.1-8B-Instruct").mkdir(parents=True)
    read = _read(["meta-llama/Llama-3.1-8B-Instruct"], folder=tmp_path)
    (entry,) = read.campaign(Path("/results")).matrix.models
    assert entry.model.name == "meta-llama/Llama-3.1-8B-Instruct"
    assert entry.model.source == str(tmp_path / "meta-llama" / "Llama-3.1-8B-Instruct")


def test_folders_are_called_by_as_much_of_their_path_as_tells_them_apart() -> None:
    given = ["./a/model", Path("b/model"), "/else/other", "../model"]
    read = _read(given, folder=Path("/here/now"))
    assert read.models == {
        "a/model": "./a/model", "b/model": "b/model", "other": "/else/other",
        "here/model": "../model",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "key", "part"),
    [
        ({"models": "m1"}, "model_names", "must be a list"),
        ({"models": []}, "model_names", "at least one model"),
        ({"models": [None]}, "model_names[0]", "not None"),
        ({"models": ["m1", ""]}, "model_names[1]", "empty"),
        ({"models": ["m1", "m1"]}, "model_names[1]", "stands twice"),
        ({"models": TWINS}, "model_names[1]", "the same model under two names"),
        ({"models": [{"name": "m1", "modle": "x"}]}, "model_names[0].modle", "'model'"),
        ({"models": ["./no"], "adapter": AdapterConfig()}, "model_names[0]", "/here/no is not"),
        ({"configs": None}, "CONFIGS", "must be a list"),
        ({"configs": []}, "CONFIGS", "at least one config"),
        ({"configs": ["ab"]}, "CONFIGS[0]", "must be a pair"),
        ({"configs": [(3, None)]}, "CONFIGS[0][0]", "must be a name"),
        ({"configs": [("a/b", None), ("a:b", {"sink": 1})]}, "CONFIGS[1]", "share"),
        ({"configs": [("c", {"locl": 3})]}, "CONFIGS[0][1].locl", "'local'"),
        ({"configs": [("c", ["dense", {"sink": -1}])]}, "CONFIGS[0][1][1].sink", "-1"),
        ({"configs": [("c", {"attention": {"sink": -1}})]}, "CONFIGS[0][1].attention.sink", "-1"),
        pytest.param({"configs": [("c", object())]}, "CONFIGS[0][1]", "object", id="an object"),
        ({"benchmarks": "mock_benchmark"}, "BENCHMARKS", "must be a list"),
        ({"benchmarks": []}, "BENCHMARKS", "at least one benchmark"),
        ({"benchmarks": [3]}, "BENCHMARKS[0]", "BenchmarkConfig"),
        ({"benchmarks": [BenchmarkConfig("mok_benchmark")]}, "BENCHMARKS[0]", "'mock_benchmark'"),
        ({"benchmarks": ["mock_benchmark", RECALL_12X]}, "BENCHMARKS[1].subsets[1]", "12x"),
        ({"benchmarks": [BenchmarkConfig("recall", [])]}, "BENCHMARKS[0].subsets", "no subset"),
        ({"benchmarks": [BenchmarkConfig("recall", 1.5)]}, "BENCHMARKS[0].subsets", "text"),  # type: ignore[arg-type]
        ({"adapter": None}, "adapter_config", "must be an AdapterConfig"),
        ({"adapter": AdapterConfig("mok")}, "adapter_config.adapter_name", "'mock'"),
        ({"adapter": AdapterConfig("mock", {"answer": {1}})}, "ADAPTER.model_kwargs.answer", "set"),
        ({"adapter": AdapterConfig("mock", {}, 3)}, "ADAPTER.tokenizer_kwargs", "mapping"),  # type: ignore[arg-type]
        ({"generation": {"temperature": float("nan")}}, "generation_kwargs.temperature", "keep"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_argument_is_told_by_its_own_name(
    arguments: dict[str, Any], key: str, part: str
) -> None:
    for short, argument in SHORT.items():
        key = key.replace(short, argument)
    found = _mistakes(**arguments)
    assert part in found.pop(key), found
    assert not found or arguments == {"adapter": None}, found  # then models are hub names


def test_all_mistakes_are_told_at_once_in_the_order_of_the_arguments() -> None:
    found = _mistakes(["m1", None], [("c", {"locl": 3})], [BenchmarkConfig("recal")], MOCK, 3)
    assert list(found) == [
        "model_names[1]", "sparse_attention_configs[0][1].locl", "benchmark_configs[0]",
        "generation_kwargs",
    ]  # fmt: skip


def test_what_holds_itself_is_a_mistake_and_no_crash() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    with pytest.raises(CampaignError, match="deep"):
        _campaign(generation=endless)
