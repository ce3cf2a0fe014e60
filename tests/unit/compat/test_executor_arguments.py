"""What a call's arguments become: generation kwargs of transformers, configs of other packages."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchfleet import AdapterConfig, BenchmarkConfig, CampaignError
from benchfleet.compat.executor.arguments import Arguments, read_arguments
from benchfleet.domain.cell import Cell


@dataclass
class SinkMaskerConfig:
    sink_size: int


@dataclass
class LocalMaskerConfig:
    window_size: float
    search_space: dict[str, Any] = field(default_factory=dict)


@dataclass
class OracleTopKConfig:
    heavy_size: float


@dataclass
class MagicPigConfig:
    lsh_l: int


@dataclass
class ResearchAttentionConfig:
    masker_configs: list[Any]


MagicPigConfig.__module__ = "sparse_attention_hub.sparse_attention"


def _arguments(folder: Path, config: Any = None, **more: Any) -> Arguments:
    generation = more.pop("generation_kwargs", None)
    settings = more.pop("settings", None)
    return read_arguments(
        folder,
        [{"name": "m"}],
        [("one", config)],
        [BenchmarkConfig("mock_benchmark", None, settings)],
        AdapterConfig("mock"),
        generation,
        **more,
    )


def _cell(folder: Path, config: Any = None, **more: Any) -> Cell:
    (cell,) = _arguments(folder, config, **more).campaign(folder).matrix.expand()
    return cell


def _mistakes(folder: Path, config: Any = None, **more: Any) -> dict[str, str]:
    with pytest.raises(CampaignError) as caught:
        _cell(folder, config, **more)
    return {mistake.key: mistake.message for mistake in caught.value.mistakes}


def test_what_the_hub_asks_of_requests_is_refused_with_what_replaces_it(tmp_path: Path) -> None:
    assert _arguments(tmp_path, request_kwargs={}).campaign(tmp_path)
    found = _mistakes(tmp_path, request_kwargs={"max_requests": 2, "max_context_length": 9, "x": 1})
    assert "BenchmarkConfig(name, subsets, {'limit': 2})" in found["request_kwargs.max_requests"]
    assert "loses its middle" in found["request_kwargs.max_context_length"]
    assert "leave it out" in found["request_kwargs.x"]
    assert list(_mistakes(tmp_path, request_kwargs=3)) == ["request_kwargs"]


def test_configs_of_sparse_attention_hub_are_the_same_cells_as_their_equals(tmp_path: Path) -> None:
    hub = ResearchAttentionConfig(
        [SinkMaskerConfig(4), LocalMaskerConfig(16), OracleTopKConfig(0.1)]
    )
    ours = [{"sink": 4}, {"local": 16}, {"oracle_top_k": 0.1}]
    assert _cell(tmp_path, hub) == _cell(tmp_path, ours)
    assert _cell(tmp_path, SinkMaskerConfig(4)) == _cell(tmp_path, {"sink": 4})


@dataclass
class QuestTopKMaskerConfig:
    heavy_size: float
    page_size: int
    label_bits: int = 16


@dataclass
class PQCacheConfig:
    heavy_size: float
    pq_sub_dim: int
    pq_bits: int


@dataclass
class OracleTopPMaskerConfig:
    top_p: float


@dataclass
class AdaptiveSamplingMaskerConfig:
    base_rate_sampling: float
    epsilon: float
    delta: float
    init_offset: int
    local_offset: int


@pytest.mark.parametrize(
    ("hub", "ours"),
    [
        (
            QuestTopKMaskerConfig(0.1, 8),
            {"quest": {"heavy_size": 0.1, "page_size": 8, "dense_layers": []}},
        ),
        (
            PQCacheConfig(64, 4, 6),
            {"pq_cache": {"heavy_size": 64, "sub_dim": 4, "share": "head"}},
        ),
        (OracleTopPMaskerConfig(0.9), {"oracle_top_p": {"top_p": 0.9, "of": "rest"}}),
        (
            AdaptiveSamplingMaskerConfig(0.1, 0.2, 0.3, 4, 8),
            {
                "adaptive_sampling": {
                    "base_rate": 0.1,
                    "epsilon": 0.2,
                    "delta": 0.3,
                    "init_offset": 4,
                    "local_offset": 8,
                }
            },
        ),
    ],
)
def test_its_fields_become_our_parameters(tmp_path: Path, hub: Any, ours: Any) -> None:
    assert _cell(tmp_path, hub) == _cell(tmp_path, ours)


@pytest.mark.parametrize(
    "config", [MagicPigConfig(3), ResearchAttentionConfig([SinkMaskerConfig(4), MagicPigConfig(3)])]
)
def test_a_config_without_an_equal_here_is_refused_by_name(tmp_path: Path, config: Any) -> None:
    assert "MagicPigConfig" in _mistakes(tmp_path, config)["sparse_attention_configs[0][1]"]


def test_a_config_with_a_further_field_is_refused_by_its_name(tmp_path: Path) -> None:
    @dataclass
    class SinkMaskerConfig:
        sink_size: int
        decay: float

    message = _mistakes(tmp_path, SinkMaskerConfig(4, 0.5))["sparse_attention_configs[0][1]"]
    assert "decay" in message


@pytest.mark.parametrize(
    ("kwargs", "meaning"),
    [
        ({"do_sample": False, "temperature": 0.7}, {"temperature": 0}),
        ({"do_sample": True}, {"temperature": 1.0}),
        ({"do_sample": True, "temperature": 0.7}, {"temperature": 0.7}),
        ({"pad_token_id": 0, "max_new_tokens": 4}, {"max_new_tokens": 4}),
    ],
)
def test_generation_kwargs_of_transformers_are_understood(
    tmp_path: Path, kwargs: dict[str, Any], meaning: dict[str, Any]
) -> None:
    same = _cell(tmp_path, generation_kwargs=meaning)
    assert _cell(tmp_path, generation_kwargs=kwargs) == same
    assert _cell(tmp_path, settings={"generation": kwargs}) == same


def test_wrong_generation_kwargs_limits_and_repeats_are_reported_at_once(tmp_path: Path) -> None:
    found = _mistakes(
        tmp_path,
        generation_kwargs={"do_sample": True, "temperature": 0},
        limits={"cel": 3},
        repeats=0,
    )
    assert list(found) == ["generation_kwargs.do_sample", "limits.cel", "repeats"]


def test_a_number_is_a_limit_in_seconds(tmp_path: Path) -> None:
    limits = _cell(tmp_path, limits={"cell": 90, "stuck": 1.5, "tries": 2}).limits
    assert (limits.cell, limits.stuck, limits.tries) == (90.0, 1.5, 2)


def test_a_campaign_error_is_a_value_error() -> None:
    assert issubclass(CampaignError, ValueError)
