"""What sets families of models apart: windows, columns, and attention that is not sdpa."""

from __future__ import annotations

import pytest
import torch
import transformers

from benchfleet.models.architecture import WITHOUT_SDPA
from benchfleet.models.base import Prompt

from .conftest import PROMPTS, SHORT, STREAMING, Watched, config


@pytest.mark.parametrize("kind", ["mpt", "gpt_neo"])
def test_padding_shifts_no_position_of_models_that_count_columns(adapter, kind):
    mine = adapter(kind)
    watched = Watched(mine)
    mine.answer(PROMPTS[:1], {"max_new_tokens": 1})
    alone = watched.logits[-1][0]
    watched.logits.clear()
    mine.answer(PROMPTS[:3], {"max_new_tokens": 1})
    assert any(torch.allclose(each[0], alone, atol=1e-4) for each in watched.logits)


def test_a_config_acts_on_the_layers_without_a_window_and_sees_the_whole_text(adapter):
    mine = adapter("mixed")
    long = Prompt(context="x" * 40, question="y" * 4)
    mine.configure(config(("sink", {"sink_size": 4}), ("local", {"window_size": 6})))
    (answer,) = mine.answer([long], {"max_new_tokens": 1})
    seen = range(42, 46)  # by each letter of the question, beyond the window of 16 keys
    assert answer.measures["density"] == pytest.approx(sum(10 / keys for keys in seen) / 4)
    assert mine.provenance()["sparse_layers"] == "1 of 2"


def test_a_window_that_is_switched_off_takes_attention_configs(adapter):
    mine = adapter("sliding", sliding_window=None)
    assert mine.check(mine.model, STREAMING) is None
    mine.configure(STREAMING)
    assert mine.answer(PROMPTS, SHORT)[0].measures["density"] < 1


def test_the_types_without_sdpa_are_those_of_transformers():
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

    for kind in sorted(WITHOUT_SDPA - {"doge"}):
        assert not getattr(getattr(transformers, NAMES[kind]), "_supports_sdpa", True), kind
