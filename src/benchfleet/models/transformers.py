"""Hugging Face models from the local disk, with attention configs switched on loaded weights."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.domain.cell import Config, Model
from benchfleet.domain.thinking import Thinking
from benchfleet.download import Download
from benchfleet.models.architecture import (
    declared_config,
    refusal,
    takes_our_attention,
)
from benchfleet.models.attention.compose import build_steps, check_steps, is_sparse
from benchfleet.models.attention.files import check_files
from benchfleet.models.attention.forward import SparseAttention, register
from benchfleet.models.base import Adapter, Answer, Loan, Prompt, PromptView, with_errors
from benchfleet.models.decoding import Continuation
from benchfleet.models.digest import hub_name, model_folder
from benchfleet.models.effective import effective
from benchfleet.models.fetch import (
    declared_digest,
    files_here,
    hub_downloads,
    known_revisions,
    model_files,
)
from benchfleet.models.generation import Generation
from benchfleet.models.lending import lent
from benchfleet.models.loaded_model import LoadedModel, load_model
from benchfleet.models.loading import (
    check_kwargs,
    check_tokenizer_kwargs,
    classify_load_errors,
    code_kwargs,
    empty_device_caches,
    generation_settings,
    out_of_memory,
)
from benchfleet.models.lora import LoraSwitch, lora_digest
from benchfleet.models.measures import attention_measures
from benchfleet.models.tokenizer_files import missing_tokenizer


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
    batch_sensitive: ClassVar[bool] = True
    chat_options: ClassVar[frozenset[str]] = frozenset(
        {"system", "template_kwargs", "effort", "budget"}
    )
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
        self._loaded: LoadedModel | None = None
        self._lora = LoraSwitch()
        self._name = ""  # of its attention, as transformers knows it
        self._thinking: Thinking | None = None

    @classmethod
    def digest(cls, source: str) -> str:
        """A folder's content, or the commit of a hub name: of its snapshot in the local cache,
        and where there is none, of the hub itself."""
        return declared_digest(source)

    @classmethod
    def checkpoint(cls, source: str) -> Path:
        return model_folder(source)

    @classmethod
    def lora_digest(cls, folder: str) -> str:
        return lora_digest(folder)

    @classmethod
    def revisions(cls, name: str) -> Sequence[str]:
        return known_revisions(name)

    @classmethod
    def fetch(cls, model: Model) -> Path:
        return model_files(model)

    @classmethod
    def downloads(cls, model: Model) -> Sequence[Download]:
        return hub_downloads(model)

    @classmethod
    def check(cls, model: Model, config: Config) -> str | None:
        own = model.kwargs.get("attn_implementation", "sdpa")
        if is_sparse(config) and not takes_our_attention(declared_config(model), own):
            return f"attention configs run on sdpa; remove attn_implementation: {own}"
        return (
            check_kwargs(model.kwargs)
            or check_tokenizer_kwargs(model.tokenizer_kwargs)
            or check_steps(config.attention, fast=config.mode == "fast")
            or (refusal(declared_config(model), config.name) if is_sparse(config) else None)
        )

    @classmethod
    def check_files(cls, model: Model) -> str | None:
        if hub_name(model.source):
            return None
        return missing_tokenizer(Path(model.source).expanduser(), model.tokenizer_kwargs)

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
            self._loaded = load_model(folder, declared, self._attention)
            self._name = register(self._attention, own=self._loaded.own)

    def switch(self, model: Model) -> None:
        loaded, self.model = self._ready(), model
        loaded.decoder.forget()
        if not (model.lora_digest or self._lora.was_used):
            return
        self._attention.steps = ()
        self._switched_to(loaded.own)  # `configure` comes next
        with classify_load_errors("load"):
            self._lora.switch(loaded.model, model)

    def configure(self, config: Config) -> None:
        """Switch to the config on the loaded weights. Raises CellFailure where it takes none."""
        loaded, sparse = self._ready(), is_sparse(config)
        loaded.decoder.forget()
        loaded.encoder.configure(config)
        self._thinking = Thinking.of(config.thinking)
        loaded.decoder.everywhere = config.everywhere
        loaded.decoder.kv_bits = int(config.kv_cache.removeprefix("int") or 0) or None
        with classify_load_errors("load"):
            check_files(config.attention)
            self._attention.steps = build_steps(config.attention) if sparse else ()
            self._attention.fast = config.mode == "fast"
            if sparse and (why := refusal(loaded.model.config.to_dict(), config.name)):
                raise ValueError(why)
            ours = takes_our_attention(loaded.model.config.to_dict(), loaded.own)
            ours = ours and self._switched_to(self._name)
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
        batch, errors = encoder.encode_all(
            prompts, max_new_tokens=settings.max_new_tokens, keeps_errors=self.keeps_errors
        )
        if not batch:
            return with_errors([], errors)
        texts = [prompt.text for n, prompt in enumerate(prompts) if n not in errors]
        generators = settings.generators(texts, device)
        with out_of_memory("benchmark"):
            continuations = loaded.decoder.generate_batch(
                batch,
                settings,
                generators,
                encoder.stopper(settings.stop),
                [encoder.budget(self._thinking, one.prompt_end) for one in batch],
            )
        texts = [settings.cut(encoder.decode(continuation.ids)) for continuation in continuations]
        seconds = (self._clock() - begun) / len(batch)
        answers = [
            Answer(
                text=text,
                prompt_tokens=encoded.length,
                completion_tokens=len(continuation.ids),
                seconds=seconds,
                measures={
                    "truncated": float(encoded.truncated),
                    **self._attention_measures(continuation),
                },
                finish="length" if continuation.cut else "stop",
                prompt_end=encoded.prompt_end,
            )
            for text, encoded, continuation in zip(texts, batch, continuations, strict=True)
        ]
        return with_errors(answers, errors)

    def open_preview(self, config: Config) -> None:
        with classify_load_errors("load"):
            folder = files_here(self.model)
            self._loaded = load_model(folder, self.model, self._attention, weights=False)
            self._name = register(self._attention, own=self._loaded.own)
        self.configure(config)

    def preview(self, prompt: Prompt, generation: Mapping[str, Any]) -> PromptView:
        settings = Generation.parse(generation)
        return self._ready().encoder.view(prompt, max_new_tokens=settings.max_new_tokens)

    def count_tokens(self, text: str) -> int:
        return self._ready().encoder.count(text)

    def lend(self) -> AbstractContextManager[Loan]:
        """The loaded model for a harness that makes its own passes."""
        return lent(self._ready(), self._attention)

    def unload(self) -> None:
        """Let the memory go."""
        self._loaded, self._lora = None, LoraSwitch()
        self._attention.steps = ()
        gc.collect()
        empty_device_caches()

    def provenance(self) -> Mapping[str, Any]:
        """What was effective: versions, dtype, devices, threads, attention, and the checkpoint's
        own generation settings."""
        loaded, sparse = self._ready(), bool(self._attention.steps)
        return {
            "adapter": "transformers",
            "model_digest": self.model.digest,
            **({"lora_digest": self.model.lora_digest} if self.model.lora_digest else {}),
            **effective(loaded.model, own=loaded.own, ours=self._name, sparse=sparse),
            "cache": loaded.decoder.cache_name,
        }

    def _ready(self) -> LoadedModel:
        if self._loaded is None:
            raise RuntimeError("the model is not loaded; call load first")
        return self._loaded

    def _switched_to(self, implementation: str) -> bool:
        """Switch the model's attention. Models of the older kind only log that they did not."""
        model = self._ready().model
        model.set_attn_implementation(implementation)
        return bool(model.config._attn_implementation == implementation)

    def _attention_measures(self, continuation: Continuation) -> dict[str, float]:
        return attention_measures(self._ready().model, self._attention, continuation)
