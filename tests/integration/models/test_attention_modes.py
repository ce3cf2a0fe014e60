"""Attention configs in mode fast, in harnesses, and with files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Config
from benchfleet.errors import CellFailure
from benchfleet.models.attention import fast, forward
from benchfleet.models.attention.base import AttentionConfig
from benchfleet.models.attention.files import digest_of_file
from benchfleet.models.attention.state import State
from benchfleet.models.attention.view import View

from .conftest import (
    COMPOSED,
    PROMPTS,
    QUEST,
    SAMPLED,
    SHORT,
    STREAMING,
    LoadAdapter,
    config,
    one_by_one,
    texts,
)


@pytest.mark.parametrize("kind", ["gqa", "qwen3", "mixed", "gemma2", "vaultgemma"])
@pytest.mark.parametrize("given", [STREAMING, COMPOSED, QUEST, SAMPLED])
def test_fast_answers_as_measure_does_and_has_no_error_to_report(
    adapter: LoadAdapter, kind: str, given: Config
) -> None:
    mine = adapter(kind)
    mine.configure(given)
    measured = one_by_one(mine, PROMPTS)
    mine.configure(replace(given, mode="fast"))
    quick_answers = one_by_one(mine, PROMPTS)
    assert texts(quick_answers) == texts(measured)
    for quick, slow in zip(quick_answers, measured, strict=True):
        assert "attention_error" not in quick.measures
        assert quick.measures["density"] == pytest.approx(slow.measures["density"], rel=1e-5)


def test_fast_decodes_single_tokens_without_a_mask(
    adapter: LoadAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def decoded(
        steps: Sequence[AttentionConfig], view: View, states: Mapping[int, State]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        calls.append(view.layer)
        return fast.decoded(steps, view, states)

    monkeypatch.setattr(forward, "decoded", decoded)
    mine = adapter()
    mine.configure(replace(STREAMING, mode="fast"))
    (answer,) = mine.answer(PROMPTS[:1], SHORT)
    passes = len(calls) // 2  # of one token each; the question gives the first, and an end is none
    assert calls == [0, 1] * passes
    assert passes in (answer.completion_tokens - 1, answer.completion_tokens)
    calls.clear()
    mine.answer(PROMPTS, SHORT)
    assert not calls  # rows of unlike lengths need a mask


def test_a_config_without_a_fast_form_is_refused_at_plan(adapter: LoadAdapter) -> None:
    mine = adapter()
    given = replace(config(("magic_pig", {})), mode="fast")
    assert mine.check(mine.model, given) == "magic_pig has no fast form; use mode: measure"


def test_a_harness_with_passes_of_many_tokens_needs_sparse_questions(adapter: LoadAdapter) -> None:
    mine = adapter()
    mine.configure(config(("quest", {"heavy_size": 8, "question": "dense"})))
    with pytest.raises(CellFailure, match="set question: sparse"), mine.lend():
        pass


def test_a_file_that_changed_since_the_campaign_was_read_is_refused(
    adapter: LoadAdapter, tmp_path: Path
) -> None:
    file = tmp_path / "channels.json"
    file.write_text("{}")
    params = {"heavy_size": 8, "sorted_channel_file": str(file)}
    step = AttentionStep(
        name="double_sparsity",
        params=params,
        digests={"sorted_channel_file": digest_of_file(file)},
    )
    mine = adapter()
    mine.configure(Config(name="c", attention=(step,)))
    file.write_text("[]")
    with pytest.raises(CellFailure, match="has changed since the campaign was read"):
        mine.configure(Config(name="c", attention=(step,)))
