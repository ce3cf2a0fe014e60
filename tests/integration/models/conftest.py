"""Tiny models with random weights, made once each, and adapters that have loaded one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    DogeConfig,
    DogeForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    Lfm2Config,
    Lfm2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MptConfig,
    MptForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    VaultGemmaConfig,
    VaultGemmaForCausalLM,
)

from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Config, Model
from benchfleet.models.base import Answer, Prompt
from benchfleet.models.loaded_model import LoadedModel
from benchfleet.models.transformers import TransformersAdapter

LoadAdapter = Callable[..., TransformersAdapter]
DEMO = Path(__file__).parents[3] / "examples" / "recall" / "model"
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
MODELS: dict[str, Callable[[], Any]] = {
    "gqa": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "short": lambda: LlamaForCausalLM(LlamaConfig(**{**SIZES, "max_position_embeddings": 48})),
    "sliding": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=16)),
    "mixed": lambda: Gemma3ForCausalLM(
        Gemma3TextConfig(
            **SIZES,
            head_dim=8,
            sliding_window=16,
            layer_types=["sliding_attention", "full_attention"],
        )
    ),
    # A softcap of 1 bends most scores of such small models.
    "gemma2": lambda: Gemma2ForCausalLM(
        Gemma2Config(
            **SIZES,
            head_dim=8,
            sliding_window=16,
            attn_logit_softcapping=1.0,
            layer_types=["sliding_attention", "full_attention"],
        )
    ),
    "vaultgemma": lambda: VaultGemmaForCausalLM(
        VaultGemmaConfig(
            **SIZES,
            head_dim=8,
            attn_logit_softcapping=1.0,
            layer_types=["full_attention", "full_attention"],
        )
    ),
    "gemma": lambda: GemmaForCausalLM(GemmaConfig(**SIZES, head_dim=8)),
    "phi3": lambda: Phi3ForCausalLM(Phi3Config(**SIZES)),
    "doge": lambda: DogeForCausalLM(DogeConfig(**SIZES)),
    "mpt": lambda: MptForCausalLM(
        MptConfig(vocab_size=259, d_model=32, n_heads=4, n_layers=2, initializer_range=0.3)
    ),
    "gpt_neo": lambda: GPTNeoForCausalLM(
        GPTNeoConfig(
            vocab_size=259,
            hidden_size=32,
            num_heads=4,
            num_layers=2,
            attention_types=[[["global", "local"], 1]],
            window_size=16,
            max_position_embeddings=512,
            initializer_range=0.3,
        )
    ),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=8)),
    "phi": lambda: PhiForCausalLM(PhiConfig(**SIZES)),
    "gpt_neox": lambda: GPTNeoXForCausalLM(
        GPTNeoXConfig(**{k: v for k, v in SIZES.items() if k != "num_key_value_heads"})
    ),
    "opt": lambda: OPTForCausalLM(
        OPTConfig(
            vocab_size=259,
            hidden_size=32,
            ffn_dim=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=512,
            init_std=0.3,
            word_embed_proj_dim=32,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        )
    ),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(
            vocab_size=259,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=512,
            bos_token_id=1,
            eos_token_id=2,
        )
    ),
    "bloom": lambda: BloomForCausalLM(
        BloomConfig(vocab_size=259, hidden_size=32, n_layer=2, n_head=4)
    ),
    "hybrid": lambda: Lfm2ForCausalLM(Lfm2Config(**SIZES, layer_types=["conv", "full_attention"])),
    "mamba": lambda: MambaForCausalLM(
        MambaConfig(vocab_size=259, hidden_size=32, num_hidden_layers=1, eos_token_id=2)
    ),
}


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Saves a tiny model of random weights and returns its folder; each kind is made once."""
    made: dict[str, Path] = {}

    def saved(kind: str = "gqa") -> Path:
        if kind not in made:
            torch.manual_seed(0)
            model = MODELS[kind]()
            folder = tmp_path_factory.mktemp(kind)
            model.save_pretrained(folder)
            save_tokenizer(folder)
            made[kind] = folder
        return made[kind]

    return saved


@pytest.fixture
def adapter(checkpoint: Callable[..., Path]) -> Iterator[LoadAdapter]:
    """Loads an adapter of a checkpoint by kind or folder, which is dense at first, and unloads it
    in the end."""
    loaded: list[TransformersAdapter] = []

    def made(source: str | Path = "gqa", **kwargs: Any) -> TransformersAdapter:
        folder = source if isinstance(source, Path) else checkpoint(source)
        loaded.append(TransformersAdapter(declared(folder, **kwargs)))
        loaded[-1].load()
        loaded[-1].configure(DENSE)
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

QUEST = config(
    ("sink", {"sink_size": 1}),
    ("quest", {"heavy_size": 8, "page_size": 4, "dense_layers": []}),
)
SAMPLED = config(("local", {"window_size": 2}), ("random_sampling", {"rate": 0.3}))


def loaded(adapter: TransformersAdapter) -> LoadedModel:
    """What it has in memory."""
    assert adapter._loaded is not None
    return adapter._loaded


def texts(answers: list[Answer]) -> list[str]:
    return [answer.text for answer in answers]


def one_by_one(
    adapter: TransformersAdapter, prompts: Sequence[Prompt], generation: Mapping[str, float] = SHORT
) -> list[Answer]:
    return [adapter.answer([prompt], generation)[0] for prompt in prompts]


class Watched:
    """Counts a model's passes and keeps the logits of each."""

    def __init__(self, adapter: TransformersAdapter) -> None:
        self.lengths: list[tuple[int, int]] = []  # batch and new tokens of each pass
        self.logits: list[torch.Tensor] = []
        loaded(adapter).model.register_forward_hook(self._note, with_kwargs=True)

    def _note(
        self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any
    ) -> None:
        self.lengths.append(tuple(kwargs["input_ids"].shape))
        self.logits.append(output.logits.clone())
