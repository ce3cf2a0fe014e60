"""A model of transformers in memory, with its tokenizer and what encodes and decodes for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchfleet.domain.cell import Model
from benchfleet.garbage import import_large
from benchfleet.models.architecture import sparse_layers
from benchfleet.models.attention.forward import SparseAttention
from benchfleet.models.decoding import Decoder
from benchfleet.models.encoding import Encoder
from benchfleet.models.loading import empty_checkpoint, end_tokens, load_checkpoint


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model in memory."""

    model: Any
    tokenizer: Any
    encoder: Encoder
    decoder: Decoder
    own: str  # the attention implementation that it was loaded with


def load_model(
    folder: Path, declared: Model, attention: SparseAttention, *, weights: bool = True
) -> LoadedModel:
    """Load the model in a folder, and set `attention` up for it. Without `weights` it can show
    prompts as tokens, and answer none."""
    import_large("transformers.modeling_utils")  # torch and most of what loads a model
    load = load_checkpoint if weights else empty_checkpoint
    model, tokenizer = load(str(folder), declared.kwargs, declared.tokenizer_kwargs)
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    attention.max_length = limit
    attention.layers = sparse_layers(model.config.to_dict())[1]
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        encoder=Encoder(tokenizer, max_length=limit),
        decoder=Decoder(model, attention, ends=end_tokens(model, tokenizer)),
        own=model.config._attn_implementation,
    )
