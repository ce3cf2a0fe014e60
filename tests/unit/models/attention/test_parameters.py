"""What a campaign may write of each attention config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from benchfleet import registry
from benchfleet.models.attention.base import AttentionConfig
from benchfleet.models.attention.view import fraction_of

MAIN = {
    "local": "window_size",
    "oracle_top_k": "heavy_size",
    "sink": "sink_size",
    "sink_local": "window_size",
    "streaming": "window_size",
}


def parse(name: str, value: Any) -> AttentionConfig:
    config: AttentionConfig = registry.load("attention", name).parse(value)
    return config


@pytest.mark.parametrize("name", MAIN)
@pytest.mark.parametrize("size", [0, 4, 1020, 0.0, 0.10, 1.0])
def test_a_bare_value_sets_the_main_parameter(name: str, size: float) -> None:
    assert parse(name, size).params()[MAIN[name]] == size
    assert parse(name, size) == parse(name, {MAIN[name]: size})


@pytest.mark.parametrize("name", MAIN)
def test_params_hold_all_of_them_and_give_the_same_config_back(name: str) -> None:
    config = parse(name, 8)
    assert parse(name, json.loads(json.dumps(config.params()))) == config


def test_streaming_has_four_sinks_by_default() -> None:
    assert parse("streaming", 60).params() == {"window_size": 60, "sink_size": 4}
    output = parse("streaming", {"sink_size": 0.5, "window_size": 6})
    assert output.params() == {"window_size": 6, "sink_size": 0.5}


@pytest.mark.parametrize("value", [None, {}])
def test_dense_takes_nothing(value: Mapping[str, Any] | None) -> None:
    assert parse("dense", value).params() == {}


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("sink", True, "sink_size may not be True; give a number of keys such as 64"),
        ("sink", "4", "sink_size may not be '4'; give a number of keys"),
        ("sink", -4, "sink_size may not be negative, as -4 is"),
        ("local", -0.5, "window_size may not be negative, as -0.5 is"),
        ("local", 1.5, "window_size may not be 1.5, as a fraction is from 0 to 1"),
        ("local", 64.0, "window_size may not be 64.0, as a fraction is from 0 to 1"),
        ("local", float("nan"), "window_size may not be nan"),
        ("oracle_top_k", {"heavy_sise": 4}, "no parameter 'heavy_sise'; did you mean 'heavy_size'"),
        ("oracle_top_k", {"k": 4}, "no parameter 'k'; there is heavy_size"),
        ("oracle_top_k", None, "heavy_size is missing; give a number of keys"),
        ("streaming", {"sink_size": 4}, "window_size is missing"),
        ("sink_local", {"window_size": 4, "sink_size": False}, "sink_size may not be False"),
        ("dense", 4, "takes no parameter; write null, not 4"),
        ("dense", {"size": 4}, "takes no parameter; remove 'size'"),
        ("sink", {4: 4}, "no parameter '4'"),
    ],
)
def test_a_wrong_value_says_what_to_do(name: str, value: Any, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        parse(name, value)


@pytest.mark.parametrize(
    ("fraction", "of", "number"),
    [
        (0.1, 30, 3),
        (0.1, 31, 4),
        (0.3, 10, 3),
        (0.7, 10, 7),
        (1.0, 9, 9),
        (0.0, 9, 0),
        (0.01, 1, 1),
    ],
)
def test_a_fraction_is_rounded_up_from_the_decimal_that_was_written(
    fraction: float, of: int, number: int
) -> None:
    assert fraction_of(fraction, of) == number
