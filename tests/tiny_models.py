"""Models of a few thousand weights, random but fixed, of many architectures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ARCHITECTURES = ("llama", "qwen2", "mistral", "gemma2", "gpt_neox", "opt", "phi3")
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8192,
    "initializer_range": 0.5,  # answers of different letters
}


def save_byte_tokenizer(folder: Path) -> list[str]:
    """A tokenizer of bytes and two words, whose texts begin with <s>; its vocabulary."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["Ġthe", "Ġof"]  # two merges, so that a token may lie in context and question
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("o", "f"), ("Ġ", "of")]
    vocabulary = [*alphabet, "th", "the", "of", *words, "<s>", "</s>"]
    tokenizer = Tokenizer(
        models.BPE(vocab={word: number for number, word in enumerate(vocabulary)}, merges=merges)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken("<s>", special=True), AddedToken("</s>", special=True)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", vocabulary.index("<s>"))]
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)
    fast.chat_template = (
        "<s>{% for message in messages %}[{{ message.role }}] {{ message.content }} {% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    fast.save_pretrained(folder)
    return vocabulary


def save_word_tokenizer(folder: Path) -> None:
    """A tokenizer that takes each word for one token."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel(vocab={"<unk>": 0}, unk_token="<unk>"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>").save_pretrained(folder)  # noqa: S106


def saved_model(folder: Path, architecture: str, **sizes: Any) -> Path:
    """A tiny model with random weights and a tokenizer of bytes, whose texts begin with <s>;
    `sizes` are settings of its config."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    vocabulary = save_byte_tokenizer(folder)
    more: dict[str, Any] = (
        {"word_embed_proj_dim": 32, "ffn_dim": 64} if architecture == "opt" else {}
    )
    more |= {"head_dim": 8, "sliding_window": 8192} if architecture == "gemma2" else {}
    torch.manual_seed(1)
    config = AutoConfig.for_model(
        architecture,
        vocab_size=len(vocabulary),
        bos_token_id=vocabulary.index("<s>"),
        eos_token_id=vocabulary.index("</s>"),
        pad_token_id=vocabulary.index("</s>"),
        **{**SMALL, **more, "init_std": 0.5, **sizes},
    )
    model = AutoModelForCausalLM.from_config(config)
    model.generation_config.eos_token_id = vocabulary.index("</s>")
    model.save_pretrained(folder)
    return folder
