"""Hugging Face models from the local disk, with attention configs switched on loaded weights."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.domain.cell import Config, Model
from benchfleet.errors import CellFailure
from benchfleet.models.architecture import declared_config, refusal, sparse_layers
from benchfleet.models.attention.compose import build_steps, check_steps
from benchfleet.models.attention.files import check_files
from benchfleet.models.attention.forward import SparseAttention, register
from benchfleet.models.attention.tally import Tally
from benchfleet.models.base import Adapter, Answer, Loan, Prompt
from benchfleet.models.decoding import Continuation, Decoder, check_output
from benchfleet.models.digest import model_folder
from benchfleet.models.effective import effective
from benchfleet.models.encoding import Encoded, Encoder
from benchfleet.models.fetch import declared_digest, is_current, model_files
from benchfleet.models.generation import Generation
from benchfleet.models.loading import (
    check_kwargs,
    check_tokenizer_kwargs,
    classify_load_errors,
    code_kwargs,
    end_tokens,
    generation_settings,
    load_checkpoint,
    out_of_memory,
)

# transformers keeps what is registered for ever, so each adapter registers a name of its own;
# "sdpa" in it makes transformers refuse models that cannot take that kernel.
_NAMES = (f"benchfleet_sdpa_{number}" for number in count())


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    model: Any
    tokenizer: Any
    encoder: Encoder
    decoder: Decoder
    own: str  # the attention implementation that it was loaded with


class TransformersAdapter(Adapter):
    """A causal language model of transformers, from a folder or the local hub cache.

    `model_kwargs` and `tokenizer_kwargs` go to ``from_pretrained`` as they are, but for `dtype`
    (or `torch_dtype`), which is written as a name such as ``bfloat16``. Generation takes the
    settings of `benchfleet.models.generation.Generation`. Each answer's measures are
    ``truncated`` (1 where the middle of the context was cut out), ``density`` (kept / visible
    keys in the sparse phase; 1 for dense) and, where sparse, ``attention_error``.
    """

    version: ClassVar[int] = 3
    requires: ClassVar[tuple[str, ...]] = ("torch", "transformers")
    extra: ClassVar[str] = "hf"
    example: ClassVar[str] = "{adapter: transformers, model: Qwen/Qwen3-0.6B}"
    lends: ClassVar[bool] = True
    rounds_cache: ClassVar[bool] = True
    measures: ClassVar[frozenset[str] | None] = frozenset(
        {"truncated", "density", "attention_error"}
    )
    # Where the weights lie; what was effective is in the provenance.
    outside: ClassVar[tuple[str, ...]] = (
        "device_map",
        "low_cpu_mem_usage",
        "max_memory",
        "offload_folder",
    )

    def __init__(self, model: Model, *, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(model)
        self._clock = clock
        self._attention = SparseAttention()
        self._loaded: _Loaded | None = None
        self._name = next(_NAMES)

    @classmethod
    def digest(cls, source: str) -> str:
        """A folder's content, or the commit of a hub name: of its snapshot in the local cache,
        and where there is none, of the hub itself."""
        return declared_digest(source)

    @classmethod
    def checkpoint(cls, source: str) -> Path:
        return model_folder(source)

    @classmethod
    def fetch(cls, model: Model) -> Path:
        return model_files(model)

    @classmethod
    def check(cls, model: Model, config: Config) -> str | None:
        own = model.kwargs.get("attn_implementation", "sdpa")
        if _is_sparse(config) and own != "sdpa":
            return f"attention configs run on sdpa; remove attn_implementation: {own}"
        return (
            check_kwargs(model.kwargs)
            or check_tokenizer_kwargs(model.tokenizer_kwargs)
            or check_steps(config.attention, fast=config.mode == "fast")
            or (refusal(declared_config(model), config.name) if _is_sparse(config) else None)
        )

    @classmethod
    def code(cls, model: Model) -> str:
        """The kwargs by which a checkpoint may bring code."""
        return code_kwargs(model.kwargs) or code_kwargs(model.tokenizer_kwargs)

    @classmethod
    def check_generation(cls, generation: Mapping[str, Any]) -> Mapping[str, str]:
        return Generation.problems(generation)

    def load(self) -> None:
        """Bring the model into memory. Raises CellFailure of stage ``load``."""
        declared = self.model
        folder = self.fetch(declared)
        with classify_load_errors("load"):
            if not is_current(declared.source, declared.digest):
                raise ValueError(
                    f"{declared.source} has changed since the campaign was read; run it again"
                )
            model, tokenizer = load_checkpoint(
                str(folder), declared.kwargs, declared.tokenizer_kwargs
            )
            limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
            self._attention.max_length = limit
            self._attention.layers = sparse_layers(model.config.to_dict())[1]
            self._loaded = _Loaded(
                model=model,
                tokenizer=tokenizer,
                encoder=Encoder(tokenizer, max_length=limit),
                decoder=Decoder(model, self._attention, ends=end_tokens(model, tokenizer)),
                own=model.config._attn_implementation,
            )
            register(self._name, self._attention)

    def configure(self, config: Config) -> None:
        """Switch to the config on the loaded weights. Raises CellFailure where it takes none."""
        loaded, sparse = self._ready(), _is_sparse(config)
        loaded.decoder.forget()
        loaded.decoder.everywhere = config.everywhere
        loaded.decoder.kv_bits = int(config.kv_cache.removeprefix("int") or 0) or None
        with classify_load_errors("load"):
            check_files(config.attention)
            self._attention.steps = build_steps(config.attention) if sparse else ()
            self._attention.fast = config.mode == "fast"
            if sparse and (why := refusal(loaded.model.config.to_dict(), config.name)):
                raise ValueError(why)
            ours = loaded.own == "sdpa" and self._switched_to(self._name)
            if not ours and not sparse:
                self._switched_to(loaded.own)
            name = type(loaded.model).__name__
            if config.kv_cache and not loaded.decoder.grows:
                raise ValueError(f"{name} drops keys as it goes; leave kv_cache out for it")
            if sparse and (not ours or loaded.decoder.recurrent):
                raise ValueError(
                    f"{name} takes no attention configs; leave {config.name} out for this model"
                )

    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        """Answer the prompts as one batch, in order.

        Raises ValueError for a setting or a prompt that cannot be, CellFailure where memory ends.
        """
        loaded, begun = self._ready(), self._clock()
        encoder, device = loaded.encoder, loaded.model.get_input_embeddings().weight.device
        settings = Generation.parse(generation)
        if settings.repetition_penalty is None:
            penalty = generation_settings(loaded.model).get("repetition_penalty")
            settings = replace(settings, repetition_penalty=penalty)
        batch = [encoder.encode(p, max_new_tokens=settings.max_new_tokens) for p in prompts]
        if not batch:
            return []
        generators = settings.generators([p.context + p.question for p in prompts], device)
        with out_of_memory("benchmark"):
            continuations = loaded.decoder.generate_batch(
                batch, settings, generators, encoder.stopper(settings.stop)
            )
        texts = [settings.cut(encoder.decode(continuation.ids)) for continuation in continuations]
        seconds = (self._clock() - begun) / len(batch)
        return [
            Answer(
                text=text,
                prompt_tokens=encoded.length,
                completion_tokens=len(continuation.ids),
                seconds=seconds,
                measures=self._measures(encoded, continuation),
            )
            for text, encoded, continuation in zip(texts, batch, continuations, strict=True)
        ]

    @contextmanager
    def lend(self) -> Iterator[Loan]:
        """The loaded model for a harness that makes its own passes.

        These know of no context and no question, so a sparse config is sparse in all of them.
        """
        loaded = self._ready()
        why = ""
        if any(step.question == "dense" for step in self._attention.steps):
            why = "many tokens at once, which question: dense leaves dense; set question: sparse"
        elif loaded.decoder.kv_bits:
            why = "with a cache of its own; leave kv_cache out for it"
        if why:
            message = f"this benchmark makes the model's passes itself, {why}"
            raise CellFailure(stage="benchmark", kind="user_error", message=message)
        loaded.decoder.forget()
        tally = Tally(1, loaded.model.get_input_embeddings().weight.device)
        continuation = Continuation(ids=())

        def measures() -> Mapping[str, float]:
            nonlocal continuation
            if mean := tally.means()[0]:
                continuation = Continuation(ids=(), density=mean[0], attention_error=mean[1])
            tally.clear()
            return self._attention_measures(continuation)

        hook = loaded.model.register_forward_hook(check_output)
        ours = loaded.model.config._attn_implementation
        if not self._attention.steps:  # a harness's passes are those of the model alone
            self._switched_to(loaded.own)
        try:
            with out_of_memory("benchmark"), self._attention.counting_all(tally):
                copy = deepcopy(loaded.tokenizer)
                yield Loan(model=loaded.model, tokenizer=copy, measures=measures)
        finally:
            hook.remove()
            self._switched_to(ours)

    def unload(self) -> None:
        """Let the memory go."""
        model = None if self._loaded is None else weakref.ref(self._loaded.model)
        self._loaded = None
        self._attention.steps = ()
        # With torch and transformers to look through it takes a quarter of a second, and a model
        # without references is freed by now. Of a load that failed nobody knows what is left.
        if model is None or model() is not None:
            gc.collect()
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        elif torch.backends.mps.is_available():
            torch.mps.empty_cache()

    def provenance(self) -> Mapping[str, Any]:
        """What was effective: versions, dtype, devices, threads, attention, and the checkpoint's
        own generation settings."""
        loaded, sparse = self._ready(), bool(self._attention.steps)
        return {
            "adapter": "transformers",
            "model_digest": self.model.digest,
            **effective(loaded.model, own=loaded.own, ours=self._name, sparse=sparse),
            "cache": loaded.decoder.cache_name,
        }

    def _ready(self) -> _Loaded:
        if self._loaded is None:
            raise RuntimeError("the model is not loaded; call load first")
        return self._loaded

    def _switched_to(self, implementation: str) -> bool:
        """Switch the model's attention. Models of the older kind only log that they did not."""
        model = self._ready().model
        model.set_attn_implementation(implementation)
        return bool(model.config._attn_implementation == implementation)

    def _measures(self, encoded: Encoded, continuation: Continuation) -> dict[str, float]:
        return {"truncated": float(encoded.truncated), **self._attention_measures(continuation)}

    def _attention_measures(self, continuation: Continuation) -> dict[str, float]:
        measures = {"density": 1.0}
        if self._attention.steps:
            if continuation.density is None or continuation.attention_error is None:
                kind = type(self._ready().model).__name__
                raise CellFailure(
                    stage="benchmark",
                    kind="user_error",
                    message=f"{kind} never called the attention config; leave it out here",
                )
            measures["density"] = continuation.density
            if not self._attention.fast:
                measures["attention_error"] = continuation.attention_error
        return measures


def _is_sparse(config: Config) -> bool:
    return any(step.name != "dense" for step in config.attention)
