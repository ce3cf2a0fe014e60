"""What real models answer: prompts cut, stops, sampling, time, memory, and the demo's recall."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from benchfleet.benchmarks.recall import Recall
from benchfleet.errors import CellFailure
from benchfleet.models.base import Prompt
from benchfleet.models.transformers import TransformersAdapter

from .conftest import (
    DEMO,
    DENSE,
    PROMPTS,
    SHORT,
    LoadAdapter,
    config,
    declared,
    loaded,
    one_by_one,
    texts,
)


def test_too_long_a_prompt_is_cut_in_the_middle_and_counted(adapter: LoadAdapter) -> None:
    mine = adapter("short")
    head, tail = "h" * 18, "t" * 18
    long = Prompt(context=head + "m" * 100 + tail, question="?????")
    # 48 positions less 5 asked and 6 to answer leave 37: BOS and 18 before, 18 behind.
    kept = Prompt(context=head + tail, question="?????")
    (cut,), (short,) = mine.answer([long], SHORT), mine.answer([kept], SHORT)
    assert cut.text == short.text
    assert (cut.measures["truncated"], short.measures["truncated"]) == (1.0, 0.0)
    assert cut.prompt_tokens == 48 - 6


def test_an_answer_ends_before_a_stop(adapter: LoadAdapter) -> None:
    mine = adapter()
    (whole,) = mine.answer(PROMPTS[:1], {"max_new_tokens": 12})
    stop = whole.text[3:5]
    (cut,) = mine.answer(PROMPTS[:1], {"max_new_tokens": 12, "stop": [stop]})
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.completion_tokens < whole.completion_tokens


def test_sampling_is_the_same_in_any_batch_and_differs_by_seed(adapter: LoadAdapter) -> None:
    mine = adapter()
    hot = {"max_new_tokens": 8, "temperature": 2.0, "top_k": 50}
    together = texts(mine.answer(PROMPTS, hot))
    assert texts(one_by_one(mine, PROMPTS, hot)) == together
    assert texts(mine.answer(PROMPTS, {**hot, "seed": 1})) != together


def test_no_prompts_have_no_answers(adapter: LoadAdapter) -> None:
    mine = adapter()
    assert mine.answer([], SHORT) == []


def test_a_batchs_time_is_shared_out_evenly(checkpoint: Callable[..., Path]) -> None:
    ticks = iter([100.0, 106.0])
    mine = TransformersAdapter(declared(checkpoint()), clock=lambda: next(ticks))
    mine.load()
    mine.configure(DENSE)
    assert [answer.seconds for answer in mine.answer(PROMPTS[:3], SHORT)] == [2.0, 2.0, 2.0]
    mine.unload()


def test_memory_that_ends_is_a_failure_to_try_again_and_leaves_nothing_behind(
    adapter: LoadAdapter,
) -> None:
    mine = adapter()
    before = texts(mine.answer(PROMPTS, SHORT))

    def burst(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    hook = loaded(mine).model.register_forward_pre_hook(burst, with_kwargs=True)
    with pytest.raises(CellFailure) as caught:
        mine.answer(PROMPTS, SHORT)
    hook.remove()
    assert (caught.value.stage, caught.value.kind) == ("benchmark", "oom")
    assert caught.value.is_retryable
    assert texts(mine.answer(PROMPTS, SHORT)) == before


def test_logits_that_are_no_numbers_are_a_bad_result(adapter: LoadAdapter) -> None:
    mine = adapter()
    with torch.no_grad():
        loaded(mine).model.get_output_embeddings().weight[0, 0] = float("nan")
    with pytest.raises(CellFailure, match="logits are not numbers; load it with another dtype"):
        mine.answer(PROMPTS, SHORT)


def test_the_demo_model_recalls_densely_and_by_the_oracle_but_not_in_a_window(
    adapter: LoadAdapter,
) -> None:
    mine = adapter(DEMO)
    samples = list(Recall({"samples": 20}).samples("256", seed=1))
    shares = {}
    for name, given in {
        "dense": DENSE,
        "window": config(("streaming", {"window_size": 16})),
        "oracle": config(("local", {"window_size": 8}), ("oracle_top_k", {"heavy_size": 8})),
    }.items():
        mine.configure(given)
        answers = mine.answer([sample.prompt for sample in samples], {"max_new_tokens": 1})
        right = [a.text == s.columns["answer"] for a, s in zip(answers, samples, strict=True)]
        shares[name] = sum(right) / len(right)
        density = answers[0].measures["density"]
        assert density == 1 if name == "dense" else density < 0.1
    assert shares["dense"] >= 0.9
    assert shares["oracle"] >= 0.9
    assert shares["window"] <= 0.5


def test_a_checkpoints_repetition_penalty_holds_and_can_be_switched_off(
    adapter: LoadAdapter, checkpoint: Callable[..., Path]
) -> None:
    plain = adapter()
    assert plain.provenance()["generation"] == {}
    mine = adapter()
    model = loaded(mine).model
    model.generation_config.repetition_penalty = 5.0
    assert mine.provenance()["generation"] == {"repetition_penalty": 5.0}
    prompt = PROMPTS[0].context + PROMPTS[0].question
    ids = loaded(mine).tokenizer(prompt, return_tensors="pt")["input_ids"][:, :-1]  # without EOS
    whole = model.generate(ids, max_new_tokens=6, do_sample=False)
    expected = loaded(mine).encoder.decode(whole[0, ids.shape[1] :].tolist())
    assert texts(mine.answer(PROMPTS[:1], SHORT)) == [expected]
    off = {**SHORT, "repetition_penalty": 1}
    assert texts(mine.answer(PROMPTS[:1], off)) == texts(plain.answer(PROMPTS[:1], SHORT))
    assert [expected] != texts(plain.answer(PROMPTS[:1], SHORT))


def test_the_number_of_threads_is_in_the_provenance(adapter: LoadAdapter) -> None:
    assert adapter().provenance()["threads"] == torch.get_num_threads()


def test_a_harness_that_makes_its_own_passes_meets_no_nan(adapter: LoadAdapter) -> None:
    mine = adapter()
    with torch.no_grad():
        loaded(mine).model.get_output_embeddings().weight[0, 0] = float("nan")
    with pytest.raises(CellFailure, match="logits are not numbers") as caught, mine.lend() as loan:
        loan.model(torch.ones(1, 3, dtype=torch.long))
    assert caught.value.kind == "bad_result"
