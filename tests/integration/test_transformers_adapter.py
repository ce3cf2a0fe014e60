"""The transformers adapter on real models: the demo's own, and tiny ones with random weights."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    BloomForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    Lfm2Config,
    Lfm2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
)

from benchfleet.benchmarks.recall import Recall
from benchfleet.domain.cell import AttentionStep, Config, Model
from benchfleet.errors import CellFailure
from benchfleet.models.base import Answer, Prompt
from benchfleet.models.transformers import TransformersAdapter

DEMO = Path(__file__).parents[2] / "examples" / "recall" / "model"
SHORT = {"max_new_tokens": 6}
PROMPTS = [
    Prompt(context="the quick brown fox jumps over the lazy dog", question=" and then"),
    Prompt(context="a stitch in time", question=" saves nine, or so they say, does it?"),
    Prompt(context="to be or not to be, that is the question; whether", question="?"),
    Prompt(context="", question="nothing came before"),
    Prompt(context="and nothing comes after"),
]


def save_tokenizer(folder: Path) -> None:
    """One token a byte, with a BOS before each text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: place for place, token in enumerate(["<pad>", "<s>", "</s>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)


SIZES = {
    "vocab_size": 259,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Saves a tiny model of random weights and returns its folder; each kind is made once."""
    made: dict[str, Path] = {}

    def saved(kind: str = "gqa") -> Path:
        if kind not in made:
            torch.manual_seed(0)
            model: Any
            if kind == "gqa":
                model = LlamaForCausalLM(LlamaConfig(**SIZES))
            elif kind == "short":
                model = LlamaForCausalLM(LlamaConfig(**{**SIZES, "max_position_embeddings": 48}))
            elif kind == "sliding":
                model = MistralForCausalLM(MistralConfig(**SIZES, sliding_window=16))
            elif kind == "gpt2":
                model = GPT2LMHeadModel(
                    GPT2Config(
                        vocab_size=259,
                        n_embd=32,
                        n_layer=2,
                        n_head=4,
                        n_positions=512,
                        bos_token_id=1,
                        eos_token_id=2,
                    )
                )
            elif kind == "bloom":
                model = BloomForCausalLM(
                    BloomConfig(vocab_size=259, hidden_size=32, n_layer=2, n_head=4)
                )
            elif kind == "hybrid":
                layers = ["conv", "full_attention"]
                model = Lfm2ForCausalLM(Lfm2Config(**SIZES, layer_types=layers))
            else:
                model = MambaForCausalLM(
                    MambaConfig(vocab_size=259, hidden_size=32, num_hidden_layers=1, eos_token_id=2)
                )
            folder = tmp_path_factory.mktemp(kind)
            model.save_pretrained(folder)
            save_tokenizer(folder)
            made[kind] = folder
        return made[kind]

    return saved


@pytest.fixture
def adapter(checkpoint: Callable[..., Path]) -> Iterator[Callable[..., TransformersAdapter]]:
    """Loads an adapter of a checkpoint by kind or folder, and unloads it in the end."""
    loaded: list[TransformersAdapter] = []

    def made(source: str | Path = "gqa", **kwargs: Any) -> TransformersAdapter:
        folder = source if isinstance(source, Path) else checkpoint(source)
        loaded.append(TransformersAdapter(declared(folder, **kwargs)))
        loaded[-1].load()
        return loaded[-1]

    yield made
    for each in loaded:
        each.unload()


def declared(folder: Path, **kwargs: Any) -> Model:
    digest = TransformersAdapter.digest(str(folder))
    return Model(
        name="m", adapter="transformers", source=str(folder), digest=digest, model_kwargs=kwargs
    )


def config(*steps: tuple[str, dict[str, Any]], everywhere: bool = False) -> Config:
    built = tuple(AttentionStep(name=name, params=params) for name, params in steps)
    return Config(name="c", attention=built, everywhere=everywhere)


DENSE = config()
STREAMING = config(("streaming", {"sink_size": 2, "window_size": 5}))
COMPOSED = config(("local", {"window_size": 3}), ("oracle_top_k", {"heavy_size": 0.2}))
ALL_KEPT = {
    "a window beyond the length": config(("local", {"window_size": 10_000})),
    "a window of everything": config(("local", {"window_size": 1.0})),
    "an oracle beyond the length": config(("oracle_top_k", {"heavy_size": 10_000})),
    "sinks and an oracle": config(
        ("sink", {"sink_size": 4}), ("oracle_top_k", {"heavy_size": 1.0})
    ),
}


def texts(answers: list[Answer]) -> list[str]:
    return [answer.text for answer in answers]


def one_by_one(adapter: TransformersAdapter, prompts, generation=SHORT) -> list[Answer]:
    return [adapter.answer([prompt], generation)[0] for prompt in prompts]


class Watched:
    """Counts a model's passes and keeps the logits of each."""

    def __init__(self, adapter: TransformersAdapter) -> None:
        self.lengths: list[tuple[int, int]] = []  # batch and new tokens of each pass
        self.logits: list[torch.Tensor] = []
        adapter._loaded.model.register_forward_hook(self._note, with_kwargs=True)

    def _note(self, module, args, kwargs, output) -> None:
        self.lengths.append(tuple(kwargs["input_ids"].shape))
        self.logits.append(output.logits.clone())


@pytest.mark.parametrize("kind", ["gqa", "sliding", "gpt2", "bloom", "hybrid"])
def test_dense_is_what_the_model_generates_by_itself(adapter, checkpoint, kind):
    mine = adapter(kind)
    mine.configure(DENSE)
    model = AutoModelForCausalLM.from_pretrained(checkpoint(kind), dtype=torch.float32)
    tokens = PreTrainedTokenizerFast.from_pretrained(checkpoint(kind))
    for prompt in PROMPTS:
        ids = [1, *tokens(prompt.context + prompt.question, add_special_tokens=False)["input_ids"]]
        wanted = model.generate(torch.tensor([ids]), max_new_tokens=6, do_sample=False)
        (answer,) = mine.answer([prompt], SHORT)
        assert answer.text == tokens.decode(wanted[0, len(ids) :], skip_special_tokens=True)
        assert answer.prompt_tokens == len(ids)
        assert answer.measures == {"truncated": 0.0, "density": 1.0}


@pytest.mark.parametrize("same", ALL_KEPT.values(), ids=ALL_KEPT.keys())
@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("kind", ["gqa", "sliding"])
def test_what_keeps_everything_equals_dense_bit_for_bit(adapter, kind, same, everywhere):
    mine = adapter(kind)
    watched = Watched(mine)
    mine.configure(DENSE)
    dense = mine.answer(PROMPTS, SHORT)
    expected, watched.logits = watched.logits, []
    mine.configure(Config(name="c", attention=same.attention, everywhere=everywhere))
    sparse = mine.answer(PROMPTS, SHORT)
    assert len(watched.logits) == len(expected)
    assert all(map(torch.equal, watched.logits, expected))
    assert texts(sparse) == texts(dense)
    for answer in sparse:
        assert answer.measures == {"truncated": 0.0, "density": 1.0, "attention_error": 0.0}


def test_sparse_configs_change_what_is_said(adapter):
    mine = adapter()
    mine.configure(DENSE)
    dense = mine.answer(PROMPTS, SHORT)
    mine.configure(STREAMING)
    assert texts(mine.answer(PROMPTS, SHORT)) != texts(dense)


@pytest.mark.parametrize("everywhere", [False, True])
def test_density_is_that_of_the_keys_kept_in_the_sparse_phase(adapter, everywhere):
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


def test_the_oracle_errs_less_the_more_it_keeps(adapter):
    mine = adapter()
    errors = []
    for heavy in (1, 2, 4, 8, 16, 32, 64):
        mine.configure(config(("oracle_top_k", {"heavy_size": heavy})))
        (answer,) = mine.answer(PROMPTS[:1], {"max_new_tokens": 1})
        errors.append(answer.measures["attention_error"])
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.1
    assert errors[-1] == 0


def test_everywhere_makes_the_prefill_sparse_too(adapter):
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


@pytest.mark.parametrize("kind", ["gqa", "sliding", "gpt2"])
@pytest.mark.parametrize(
    "given",
    [DENSE, STREAMING, COMPOSED, config(("local", {"window_size": 4}), everywhere=True)],
    ids=["dense", "streaming", "composed", "everywhere"],
)
def test_a_batch_answers_as_its_prompts_do_alone(adapter, kind, given):
    mine = adapter(kind)
    mine.configure(given)
    together, alone = mine.answer(PROMPTS, SHORT), one_by_one(mine, PROMPTS)
    assert texts(together) == texts(alone)
    for batched, single in zip(together, alone, strict=True):
        assert batched.prompt_tokens == single.prompt_tokens
        assert batched.completion_tokens == single.completion_tokens
        assert batched.measures == pytest.approx(single.measures, rel=1e-4)


@pytest.mark.parametrize("kind", ["bloom", "hybrid"])
def test_a_model_that_takes_no_attention_configs_runs_densely_and_says_so(adapter, kind):
    mine = adapter(kind)
    mine.configure(DENSE)
    together, alone = mine.answer(PROMPTS, SHORT), one_by_one(mine, PROMPTS)
    assert texts(together) == texts(alone)
    with pytest.raises(CellFailure, match="ForCausalLM takes no attention configs; leave c out"):
        mine.configure(STREAMING)
    mine.configure(DENSE)
    assert texts(mine.answer(PROMPTS, SHORT)) == texts(alone)


def test_a_config_that_the_model_never_called_is_no_result(adapter):
    mine = adapter()
    mine.configure(STREAMING)
    mine._loaded.model.set_attn_implementation("sdpa")
    with pytest.raises(CellFailure, match="LlamaForCausalLM never called the attention config"):
        mine.answer(PROMPTS, SHORT)


@pytest.mark.parametrize(
    "given",
    [DENSE, COMPOSED, config(("local", {"window_size": 4}), everywhere=True)],
    ids=["dense", "composed", "everywhere"],
)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_context_in_memory_gives_what_a_new_one_gives(adapter, given, size):
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
    for one, other in zip(reused, fresh, strict=True):
        assert one.measures == pytest.approx(other.measures, rel=1e-4)
    prefills = [length for length in watched.lengths if length[1] > 12]
    assert sum(rows for rows, _ in prefills) == (3 if size == 2 else 2)


def test_a_question_leaves_no_trace_in_the_context(adapter):
    mine = adapter()
    mine.configure(DENSE)
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


def test_switching_back_and_forth_gives_the_first_answers_again(adapter):
    mine = adapter()
    configs = [DENSE, STREAMING, COMPOSED, config(("sink", {"sink_size": 1}), everywhere=True)]
    rounds = []
    for _ in range(2):
        for given in configs:
            mine.configure(given)
            answers = mine.answer(PROMPTS, SHORT)
            rounds.append([(answer.text, dict(answer.measures)) for answer in answers])
    assert rounds[: len(configs)] == rounds[len(configs) :]


def test_two_adapters_keep_their_configs_apart(adapter):
    one, other = adapter(), adapter()
    one.configure(STREAMING)
    other.configure(DENSE)
    sparse = one.answer(PROMPTS[:2], SHORT)
    dense = other.answer(PROMPTS[:2], SHORT)
    other.configure(STREAMING)
    assert texts(other.answer(PROMPTS[:2], SHORT)) == texts(sparse)
    one.configure(DENSE)
    assert texts(one.answer(PROMPTS[:2], SHORT)) == texts(dense)


def test_too_long_a_prompt_is_cut_in_the_middle_and_counted(adapter):
    mine = adapter("short")
    mine.configure(DENSE)
    head, tail = "h" * 18, "t" * 18
    long = Prompt(context=head + "m" * 100 + tail, question="?????")
    # 48 positions less 5 asked and 6 to answer leave 37: BOS and 18 before, 18 behind.
    kept = Prompt(context=head + tail, question="?????")
    (cut,), (short,) = mine.answer([long], SHORT), mine.answer([kept], SHORT)
    assert cut.text == short.text
    assert (cut.measures["truncated"], short.measures["truncated"]) == (1.0, 0.0)
    assert cut.prompt_tokens == 48 - 6


def test_an_answer_ends_before_a_stop(adapter):
    mine = adapter()
    mine.configure(DENSE)
    (whole,) = mine.answer(PROMPTS[:1], {"max_new_tokens": 12})
    stop = whole.text[3:5]
    (cut,) = mine.answer(PROMPTS[:1], {"max_new_tokens": 12, "stop": [stop]})
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.completion_tokens < whole.completion_tokens


def test_sampling_is_the_same_in_any_batch_and_differs_by_seed(adapter):
    mine = adapter()
    mine.configure(DENSE)
    hot = {"max_new_tokens": 8, "temperature": 2.0, "top_k": 50}
    together = texts(mine.answer(PROMPTS, hot))
    assert texts(one_by_one(mine, PROMPTS, hot)) == together
    assert texts(mine.answer(PROMPTS, {**hot, "seed": 1})) != together


def test_a_wrong_setting_is_named(adapter):
    mine = adapter()
    mine.configure(DENSE)
    with pytest.raises(ValueError, match="no generation setting 'num_beams'"):
        mine.answer(PROMPTS, {"num_beams": 4})


def test_no_prompts_have_no_answers(adapter):
    mine = adapter()
    mine.configure(DENSE)
    assert mine.answer([], SHORT) == []


def test_a_batchs_time_is_shared_out_evenly(checkpoint):
    ticks = iter([100.0, 106.0])
    mine = TransformersAdapter(declared(checkpoint()), clock=lambda: next(ticks))
    mine.load()
    mine.configure(DENSE)
    assert [answer.seconds for answer in mine.answer(PROMPTS[:3], SHORT)] == [2.0, 2.0, 2.0]
    mine.unload()


def test_memory_that_ends_is_a_failure_to_try_again_and_leaves_nothing_behind(adapter):
    mine = adapter()
    mine.configure(DENSE)
    before = texts(mine.answer(PROMPTS, SHORT))

    def burst(module, args, kwargs) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    hook = mine._loaded.model.register_forward_pre_hook(burst, with_kwargs=True)
    with pytest.raises(CellFailure) as caught:
        mine.answer(PROMPTS, SHORT)
    hook.remove()
    assert (caught.value.stage, caught.value.kind) == ("benchmark", "oom")
    assert caught.value.is_retryable
    assert texts(mine.answer(PROMPTS, SHORT)) == before


def test_logits_that_are_no_numbers_are_a_bad_result(adapter):
    mine = adapter()
    mine.configure(DENSE)
    with torch.no_grad():
        mine._loaded.model.get_output_embeddings().weight[0, 0] = float("nan")
    with pytest.raises(CellFailure, match="logits are not numbers; load it with another dtype"):
        mine.answer(PROMPTS, SHORT)


@pytest.mark.parametrize(
    ("kwargs", "dtype"),
    [
        ({}, "float32"),
        ({"dtype": "bfloat16"}, "bfloat16"),
        ({"torch_dtype": "torch.float64"}, "float64"),
    ],
)
def test_provenance_tells_what_was_effective(adapter, kwargs, dtype):
    mine = adapter(**kwargs)
    mine.configure(STREAMING)
    mine.answer(PROMPTS[:1], SHORT)
    told = mine.provenance()
    assert told["dtype"] == dtype
    assert told["torch"] == torch.__version__
    assert told["attn_implementation"] == "sdpa"
    assert len(told["devices"]) == 1
    assert told["model_digest"] == mine._declared.digest


def test_a_half_precision_checkpoint_is_float32_on_a_cpu(adapter):
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        pytest.skip("there is a GPU here, which takes the checkpoint's own dtype")
    assert adapter(DEMO).provenance()["dtype"] == "float32"


def test_unloading_lets_the_weights_go(adapter):
    from weakref import ref

    mine = adapter()
    mine.configure(STREAMING)
    mine.answer(PROMPTS, SHORT)
    model = ref(mine._loaded.model)
    mine.unload()
    assert model() is None
    mine.unload()


def test_a_model_that_hangs_together_in_a_cycle_is_let_go_too(adapter):
    from weakref import ref

    mine = adapter()
    model = mine._loaded.model
    vars(model)["held"] = [model]
    model = ref(model)
    gc.disable()
    try:
        mine.unload()
        assert model() is None
    finally:
        gc.enable()


def test_a_model_that_goes_by_itself_is_not_searched_for_cycles(adapter):
    mine, searches = adapter(), []
    gc.disable()
    gc.callbacks.append(lambda phase, told: searches.append(phase))
    try:
        mine.unload()
    finally:
        gc.callbacks.pop()
        gc.enable()
    assert not searches


def test_the_demo_model_recalls_densely_and_by_the_oracle_but_not_in_a_window(adapter):
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


def test_a_hub_name_loads_from_the_local_cache(checkpoint, tmp_path, monkeypatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--org--tiny"
    shutil.copytree(checkpoint(), repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    digest = TransformersAdapter.digest("org/tiny")
    assert digest == commit
    model = Model(name="m", adapter="transformers", source="org/tiny", digest=digest)
    mine = TransformersAdapter(model)
    mine.load()
    mine.configure(DENSE)
    assert mine.answer(PROMPTS[:1], SHORT)[0].completion_tokens > 0
    mine.unload()


def failure_of(model: Model) -> CellFailure:
    with pytest.raises(CellFailure) as caught:
        TransformersAdapter(model).load()
    assert caught.value.stage == "load"
    return caught.value


def test_a_model_that_is_gone_is_not_found(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint(), tmp_path / "model")
    model = declared(folder)
    shutil.rmtree(folder)
    failure = failure_of(model)
    assert failure.kind == "model_not_found"
    assert "model is not there" in str(failure)


def test_a_model_that_changed_since_it_was_declared_is_refused(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint(), tmp_path / "model")
    model = declared(folder)
    (folder / "generation_config.json").write_text("{}")
    failure = failure_of(model)
    assert failure.kind == "user_error"
    assert "has changed since the campaign was read" in str(failure)


def test_a_config_of_no_known_kind_is_the_users_error(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint(), tmp_path / "model")
    (folder / "config.json").write_text('{"model_type": "no_such_kind"}')
    assert failure_of(declared(folder)).kind == "user_error"


def test_lacking_weights_are_refused_and_not_made_up(checkpoint, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(checkpoint(), tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    failure = failure_of(declared(folder))
    assert failure.kind == "user_error"
    assert "lacks weights" in str(failure)
    assert "model.layers.1.mlp.up_proj.weight" in str(failure)


def test_wrong_model_kwargs_are_the_users_error(checkpoint):
    failure = failure_of(declared(checkpoint(), dtype="half"))
    assert failure.kind == "user_error"
    assert "dtype must be one of" in str(failure)


def test_an_unknown_model_kwarg_is_the_users_error(checkpoint):
    assert failure_of(declared(checkpoint(), no_such_setting=4)).kind == "user_error"


def test_a_model_without_keys_and_values_is_refused(checkpoint):
    failure = failure_of(declared(checkpoint("mamba")))
    assert failure.kind == "user_error"
    assert "keeps no keys and values" in str(failure)
