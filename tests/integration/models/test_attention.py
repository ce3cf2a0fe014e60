"""Attention configs on real models: what is dense, what is sparse, and what leaves no trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    PreTrainedTokenizerFast,
)

from benchfleet.domain.cell import Config
from benchfleet.errors import CellFailure
from benchfleet.models.base import Prompt

from .conftest import (
    COMPOSED,
    DENSE,
    PROMPTS,
    QUEST,
    SAMPLED,
    SHORT,
    STREAMING,
    LoadAdapter,
    Watched,
    config,
    loaded,
    one_by_one,
    texts,
)

ALL_KEPT = {
    "a window beyond the length": config(("local", {"window_size": 10_000})),
    "a window of everything": config(("local", {"window_size": 1.0})),
    "an oracle beyond the length": config(("oracle_top_k", {"heavy_size": 10_000})),
    "sinks and an oracle": config(
        ("sink", {"sink_size": 4}), ("oracle_top_k", {"heavy_size": 1.0})
    ),
}


UNIFORM = ["gqa", "qwen2", "qwen3", "phi", "phi3", "gemma", "gpt_neox", "opt", "gpt2", "vaultgemma"]
SERVED = [*UNIFORM, "mixed", "gemma2"]  # these two have layers with a sliding window


@pytest.mark.parametrize("kind", [*SERVED, "sliding", "bloom", "hybrid"])
def test_dense_is_what_the_model_generates_by_itself(
    adapter: LoadAdapter, checkpoint: Callable[..., Path], kind: str
) -> None:
    mine = adapter(kind)
    model = AutoModelForCausalLM.from_pretrained(checkpoint(kind), dtype=torch.float32)
    tokens = PreTrainedTokenizerFast.from_pretrained(checkpoint(kind))
    for prompt in PROMPTS:
        ids = [1, *tokens(prompt.context + prompt.question, add_special_tokens=False)["input_ids"]]
        wanted = model.generate(torch.tensor([ids]), max_new_tokens=6, do_sample=False)
        (answer,) = mine.answer([prompt], SHORT)
        assert answer.text == tokens.decode(wanted[0, len(ids) :], skip_special_tokens=True)
        assert answer.prompt_tokens == len(ids)
        assert answer.measures == {"truncated": 0.0, "density": 1.0}


# Of any mask this is proved on tensors; here by two models with sliding layers too.
@pytest.mark.parametrize(
    ("kind", "name", "everywhere"),
    [
        ("gqa", "a window beyond the length", False),
        ("gqa", "a window of everything", True),
        ("gqa", "an oracle beyond the length", True),
        ("gqa", "sinks and an oracle", False),
        ("mixed", "sinks and an oracle", False),
        ("gemma2", "an oracle beyond the length", True),
    ],
)
def test_what_keeps_everything_equals_dense_bit_for_bit(
    adapter: LoadAdapter, kind: str, name: str, everywhere: bool
) -> None:
    mine, same = adapter(kind), ALL_KEPT[name]
    watched = Watched(mine)
    dense = mine.answer(PROMPTS, SHORT)
    expected, watched.logits = watched.logits, []
    mine.configure(Config(name="c", attention=same.attention, everywhere=everywhere))
    sparse = mine.answer(PROMPTS, SHORT)
    assert len(watched.logits) == len(expected)
    assert all(map(torch.equal, watched.logits, expected))
    assert texts(sparse) == texts(dense)
    for answer in sparse:
        assert answer.measures == {"truncated": 0.0, "density": 1.0, "attention_error": 0.0}


def test_sparse_configs_change_the_text(adapter: LoadAdapter) -> None:
    mine = adapter()
    dense = mine.answer(PROMPTS, SHORT)
    mine.configure(STREAMING)
    assert texts(mine.answer(PROMPTS, SHORT)) != texts(dense)


@pytest.mark.parametrize("everywhere", [False, True])
def test_density_is_that_of_the_keys_kept_in_the_sparse_phase(
    adapter: LoadAdapter, everywhere: bool
) -> None:
    mine = adapter()
    mine.configure(config(("local", {"window_size": 5}), everywhere=everywhere))
    (answer,) = mine.answer([Prompt(context="x" * 29, question="y" * 4)], {"max_new_tokens": 3})
    seen = list(range(31, 35))  # by each letter of the question; BOS and context are 30
    seen += list(range(35, 35 + answer.completion_tokens - 1))  # and by all but the last answered
    if everywhere:
        seen += list(range(1, 31))
    assert answer.completion_tokens == 3
    expected = sum(min(5, keys) / keys for keys in seen) / len(seen)
    assert answer.measures["density"] == pytest.approx(expected, rel=1e-6)
    assert answer.measures["attention_error"] > 0


def test_everywhere_makes_the_prefill_sparse_too(adapter: LoadAdapter) -> None:
    mine = adapter()
    watched = Watched(mine)
    window = ("local", {"window_size": 3})
    first = {}
    for name, given in (
        ("dense", DENSE),
        ("after", config(window)),
        ("everywhere", config(window, everywhere=True)),
    ):
        mine.configure(given)
        watched.logits.clear()
        mine.answer(PROMPTS[:1], SHORT)
        first[name] = watched.logits[0]
    assert torch.equal(first["after"], first["dense"])
    assert not torch.allclose(first["everywhere"], first["dense"], atol=1e-3)


BATCHED = {
    "dense": DENSE,
    "composed": COMPOSED,
    "streaming": STREAMING,
    "everywhere": config(("local", {"window_size": 4}), everywhere=True),
    "quest": QUEST,
    "sampled": SAMPLED,
}
# Every kind densely and sparsely; every config on one model of each way to keep a cache.
KINDS_BATCHED = [(kind, name) for kind in SERVED for name in ("dense", "composed")] + [
    (kind, name) for kind in ("gqa", "mixed", "gemma2") for name in list(BATCHED)[2:]
]


@pytest.mark.parametrize(
    ("kind", "given"),
    [pytest.param(kind, BATCHED[name], id=f"{kind}-{name}") for kind, name in KINDS_BATCHED],
)
def test_a_batch_answers_as_its_prompts_do_alone(
    adapter: LoadAdapter, kind: str, given: Config
) -> None:
    mine = adapter(kind)
    mine.configure(given)
    together, alone = mine.answer(PROMPTS, SHORT), one_by_one(mine, PROMPTS)
    assert texts(together) == texts(alone)
    for batched, single in zip(together, alone, strict=True):
        assert batched.prompt_tokens == single.prompt_tokens
        assert batched.completion_tokens == single.completion_tokens
        assert batched.measures == pytest.approx(single.measures, rel=1e-4)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("bloom", "bloom models do not compute attention by sdpa; leave c out"),
        ("doge", "doge models do not compute attention by sdpa; leave c out"),
        ("hybrid", "ForCausalLM takes no attention configs; leave c out"),
        ("sliding", r"window of 16 keys.* add model_kwargs: {sliding_window: null}"),
    ],
)
def test_a_model_that_takes_no_attention_configs_runs_densely_and_says_so(
    adapter: LoadAdapter, kind: str, reason: str
) -> None:
    mine = adapter(kind)
    together, alone = mine.answer(PROMPTS, SHORT), one_by_one(mine, PROMPTS)
    assert texts(together) == texts(alone)
    with pytest.raises(CellFailure, match=reason):
        mine.configure(STREAMING)
    if kind != "hybrid":  # found at plan, too
        assert re.search(reason, mine.check(mine.model, STREAMING) or "")
    mine.configure(DENSE)
    assert texts(mine.answer(PROMPTS, SHORT)) == texts(alone)


@pytest.mark.parametrize(
    ("kind", "decoding", "cache"),
    [(kind, "benchfleet", "growing") for kind in UNIFORM]
    + [(kind, "benchfleet", "transformers") for kind in SERVED if kind not in UNIFORM]
    + [("bloom", "transformers", "growing")],
)
def test_the_result_says_how_tokens_were_decoded(
    adapter: LoadAdapter, kind: str, decoding: str, cache: str
) -> None:
    provenance = adapter(kind).provenance()
    assert (provenance["decoding"], provenance["cache"]) == (decoding, cache)


def test_a_harness_gets_the_models_own_dense_attention(adapter: LoadAdapter) -> None:
    mine = adapter()
    with mine.lend() as loan:
        assert loan.model.config._attn_implementation == "sdpa"
    assert mine.provenance()["decoding"] == "benchfleet"
    mine.configure(STREAMING)
    with mine.lend() as loan:
        assert loan.model.config._attn_implementation != "sdpa"


def test_a_config_that_the_model_never_called_is_no_result(adapter: LoadAdapter) -> None:
    mine = adapter()
    mine.configure(STREAMING)
    loaded(mine).model.set_attn_implementation("sdpa")
    with pytest.raises(CellFailure, match="LlamaForCausalLM never called the attention config"):
        mine.answer(PROMPTS, SHORT)


@pytest.mark.parametrize(
    "given",
    [
        DENSE,
        COMPOSED,
        config(("local", {"window_size": 4}), everywhere=True),
        QUEST,
        config(("magic_pig", {"k": 2, "l": 8, "dense_layers": [0]})),
        config(("pq_cache", {"heavy_size": 6, "bits": 2, "init_offset": 2})),
    ],
    ids=["dense", "composed", "everywhere", "quest", "magic_pig", "pq_cache"],
)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_context_in_memory_gives_what_a_new_one_gives(
    adapter: LoadAdapter, given: Config, size: int
) -> None:
    asked = [
        Prompt(context=context, question=question)
        for context in ("the first of two contexts", "and another, which is longer than it")
        for question in (" what?", " who is it?", " why")
    ]
    fresh = []
    for prompt in asked:
        other = adapter()
        other.configure(given)
        fresh += other.answer([prompt], SHORT)
    mine = adapter()
    mine.configure(given)
    watched = Watched(mine)
    reused = []
    for start in range(0, len(asked), size):
        reused += mine.answer(asked[start : start + size], SHORT)
    assert texts(reused) == texts(fresh)
    for one, first in zip(reused, fresh, strict=True):
        assert one.measures == pytest.approx(first.measures, rel=1e-4)
    prefills = [length for length in watched.lengths if length[1] > 12]
    assert sum(rows for rows, _ in prefills) == (3 if size == 2 else 2)


def test_a_question_leaves_no_trace_in_the_context(adapter: LoadAdapter) -> None:
    mine = adapter()
    watched = Watched(mine)
    prompt = PROMPTS[0]
    mine.answer([prompt], SHORT)
    first = watched.logits[1:]
    for question in (" something else entirely", " more"):
        mine.answer([Prompt(context=prompt.context, question=question)], SHORT)
    watched.logits.clear()
    mine.answer([prompt], SHORT)
    assert len(watched.logits) == len(first)
    assert all(map(torch.equal, watched.logits, first))


def test_switching_back_and_forth_gives_the_first_answers_again(adapter: LoadAdapter) -> None:
    mine = adapter()
    configs = [DENSE, STREAMING, COMPOSED, config(("sink", {"sink_size": 1}), everywhere=True)]
    rounds = []
    for _ in range(2):
        for given in configs:
            mine.configure(given)
            answers = mine.answer(PROMPTS, SHORT)
            rounds.append([(answer.text, dict(answer.measures)) for answer in answers])
    assert rounds[: len(configs)] == rounds[len(configs) :]


def test_two_adapters_keep_their_configs_apart(adapter: LoadAdapter) -> None:
    one, other = adapter(), adapter()
    one.configure(STREAMING)
    other.configure(DENSE)
    sparse = one.answer(PROMPTS[:2], SHORT)
    dense = other.answer(PROMPTS[:2], SHORT)
    other.configure(STREAMING)
    assert texts(other.answer(PROMPTS[:2], SHORT)) == texts(sparse)
    one.configure(DENSE)
    assert texts(one.answer(PROMPTS[:2], SHORT)) == texts(dense)
