"""What may be written of a model's loading, and the names of its failures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from weakref import ReferenceType, ref

import pytest
import torch

from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Config, Model
from benchfleet.errors import CellFailure
from benchfleet.models.loading import check_kwargs, classify_load_errors, out_of_memory
from benchfleet.models.transformers import TransformersAdapter


@pytest.mark.parametrize(
    ("kwargs", "wrong"),
    [
        ({"dtype": "bf16"}, "dtype must be one of auto, float32, bfloat16, float16, float64"),
        ({"torch_dtype": 16}, "torch_dtype must be one of .*; not 16"),
        ({"dtype": "int8"}, "not 'int8'"),
        ({"dtype": "float32", "torch_dtype": "float32"}, "are one setting; remove torch_dtype"),
        ({"revision": "main"}, "may not hold revision; write it with the model's name"),
        ({"local_files_only": False}, "may not hold local_files_only"),
        ({"device_map": "balancedd"}, "device_map names 'balancedd', which is no device"),
        ({"device_map": {"model": 0, "lm_head": -1}}, "device_map names -1"),
    ],
)
def test_wrong_kwargs_say_what_to_do(kwargs: Mapping[str, Any], wrong: str) -> None:
    assert re.search(wrong, check_kwargs(kwargs) or "")


def model(**kwargs: Any) -> Model:
    return Model(name="m", adapter="transformers", source="x", digest="d", model_kwargs=kwargs)


def config(*names: str, **params: Any) -> Config:
    steps = tuple(AttentionStep(name=name, params=params) for name in names)
    return Config(name="c", attention=steps)


@pytest.mark.parametrize(
    ("kwargs", "run"),
    [
        ({}, config()),
        ({"dtype": "float32"}, config("sink", sink_size=4)),
        ({"torch_dtype": "torch.float16"}, config()),
        ({"dtype": "auto", "attn_implementation": "eager", "device_map": "auto"}, config("dense")),
        ({"attn_implementation": "eager"}, config()),
    ],
)
def test_check_finds_nothing_wrong_with_what_can_run(
    kwargs: Mapping[str, str], run: Config
) -> None:
    assert TransformersAdapter.check(model(**kwargs), run) is None


def test_check_names_what_cannot_run() -> None:
    def check(model: Model, config: Config) -> str:
        return TransformersAdapter.check(model, config) or ""

    eager = check(model(attn_implementation="eager"), config("sink", sink_size=4))
    assert eager == "attention configs run on sdpa; remove attn_implementation: eager"
    assert "sink_size may not be negative" in check(model(), config("sink", sink_size=-1))
    assert "no attention config 'sinc'" in check(model(), config("sinc"))
    assert "dtype must be one of" in check(model(dtype="half"), config())


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "oom", True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "oom", True),
        (MemoryError(), "oom", True),
        (ImportError("no module named tiktoken"), "missing_extra", False),
        (FileNotFoundError("no such file"), "model_not_found", False),
        (ValueError("unrecognised model"), "user_error", False),
        (TypeError("unexpected keyword"), "user_error", False),
        (CellFailure(stage="load", kind="timeout", message="late"), "timeout", False),
    ],
)
def test_what_is_raised_while_loading_gets_its_kind(
    error: BaseException, kind: str, retryable: bool
) -> None:
    with pytest.raises(CellFailure) as caught, classify_load_errors("load"):
        raise error
    assert (caught.value.stage, caught.value.kind) == ("load", kind)
    assert caught.value.is_retryable is retryable
    assert str(caught.value)


class Weights:
    """Stands for what takes memory."""


def test_where_memory_ended_the_frames_that_failed_hold_nothing_more() -> None:
    taken: list[ReferenceType[Weights]] = []

    def fails() -> None:
        weights = Weights()
        taken.append(ref(weights))
        raise MemoryError

    with pytest.raises(CellFailure) as caught, out_of_memory("benchmark"):
        fails()
    assert taken[0]() is None
    assert caught.value.__cause__ is not None


def test_what_has_no_name_passes_as_it_is() -> None:
    with pytest.raises(RuntimeError, match="shapes"), classify_load_errors("load"):
        raise RuntimeError("shapes do not fit")
    with pytest.raises(ValueError, match="prompt"), out_of_memory("benchmark"):
        raise ValueError("the prompt is empty")


def test_an_adapter_asked_before_it_is_loaded_says_so() -> None:
    adapter = TransformersAdapter(model())
    with pytest.raises(RuntimeError, match="call load first"):
        adapter.answer([], {})
