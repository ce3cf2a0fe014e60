"""A model on vLLM's offline engine, in the slot's own process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.domain.cell import Config, Model
from benchfleet.download import Download
from benchfleet.errors import CellFailure
from benchfleet.models.base import Adapter, Answer, Prompt, PromptView, dense_alone, with_errors
from benchfleet.models.digest import checkpoint_config
from benchfleet.models.encoding import Encoder
from benchfleet.models.fetch import declared_digest, files_here, hub_downloads, model_files
from benchfleet.models.generation import Generation
from benchfleet.models.loading import (
    classify_load_errors,
    empty_device_caches,
    load_tokenizer,
    out_of_memory,
)

_OUTSIDE = ("gpu_memory_utilization", "tensor_parallel_size", "swap_space", "cpu_offload_gb")
_CODE = ("trust_remote_code", "worker_cls", "hf_overrides", "additional_config")


class VllmOfflineAdapter(Adapter):
    """A model of transformers on vLLM's offline engine, without a server.

    `model_kwargs` go to ``vllm.LLM`` as they are. The engine takes all GPUs of the slot, unless
    `tensor_parallel_size` says otherwise. A larger `batch_size` is quicker.
    """

    requires: ClassVar[tuple[str, ...]] = ("vllm",)
    extra: ClassVar[str] = "vllm"
    batch_sensitive: ClassVar[bool] = True
    chat_options: ClassVar[frozenset[str]] = frozenset({"system", "template_kwargs", "effort"})
    example: ClassVar[str] = "{adapter: vllm_offline, model: Qwen/Qwen3-0.6B}"
    outside: ClassVar[tuple[str, ...]] = _OUTSIDE
    measures: ClassVar[frozenset[str] | None] = frozenset({"truncated"})

    def __init__(self, model: Model, *, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(model)
        self._clock = clock
        self._engine: Any = None
        self._encoder: Encoder | None = None
        self._keeps_tags = False

    @classmethod
    def digest(cls, source: str) -> str:
        return declared_digest(source)

    @classmethod
    def fetch(cls, model: Model) -> Path:
        return model_files(model)

    @classmethod
    def downloads(cls, model: Model) -> Sequence[Download]:
        return hub_downloads(model)

    @classmethod
    def check(cls, model: Model, config: Config) -> str | None:
        return dense_alone(config, "vLLM")

    @classmethod
    def check_generation(cls, generation: Mapping[str, Any]) -> Mapping[str, str]:
        return Generation.problems(generation)

    @classmethod
    def code(cls, model: Model) -> str:
        names = [name for name in _CODE if model.kwargs.get(name)]
        return f"the kwargs {', '.join(names)}" if names else ""

    def load(self) -> None:
        folder = self.fetch(self.model)
        with classify_load_errors("load"):
            import torch
            from vllm import LLM

            gpus = max(torch.cuda.device_count(), 1)
            settings = {"tensor_parallel_size": gpus, "seed": 0, **self.model.kwargs}
            self._engine = LLM(model=str(folder), **settings)
            limit = self._engine.llm_engine.model_config.max_model_len
            self._encoder = Encoder(self._engine.get_tokenizer(), max_length=limit)

    def configure(self, config: Config) -> None:
        """Every config is dense; only its chat differs."""
        if self._encoder is not None:
            self._encoder.configure(config)
        self._keeps_tags = config.thinking is not None

    def open_preview(self, config: Config) -> None:
        kwargs = self.model.kwargs
        with classify_load_errors("load"):
            folder = files_here(self.model)
            limit = kwargs.get("max_model_len") or checkpoint_config(str(folder)).get(
                "max_position_embeddings"
            )
            tokenizer = load_tokenizer(str(folder), self.model.tokenizer_kwargs)
            self._encoder = Encoder(tokenizer, max_length=limit)
        self.configure(config)

    def preview(self, prompt: Prompt, generation: Mapping[str, Any]) -> PromptView:
        if self._encoder is None:
            raise RuntimeError("no tokenizer is open; call open_preview first")
        settings = Generation.parse(generation)
        return self._encoder.view(prompt, max_new_tokens=settings.max_new_tokens)

    def count_tokens(self, text: str) -> int | None:
        return self._encoder.count(text) if self._encoder else None

    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        if self._engine is None or self._encoder is None:
            raise RuntimeError("the model is not loaded; call load first")
        from vllm import SamplingParams

        settings, begun = Generation.parse(generation), self._clock()
        try:
            batch, errors = self._encoder.encode_all(
                prompts, max_new_tokens=settings.max_new_tokens, keeps_errors=self.keeps_errors
            )
        except ValueError as error:
            raise CellFailure(stage="benchmark", kind="user_error", message=str(error)) from error
        sampling = SamplingParams(
            max_tokens=settings.max_new_tokens,
            temperature=settings.temperature,
            top_p=settings.top_p,
            top_k=settings.top_k or -1,
            seed=settings.seed,
            stop=list(settings.stop),
            repetition_penalty=settings.repetition_penalty or 1.0,
        )
        requests = [{"prompt_token_ids": [*one.context, *one.question]} for one in batch]
        with out_of_memory("benchmark"):
            outputs = self._engine.generate(requests, sampling, use_tqdm=False)
        seconds = (self._clock() - begun) / max(len(batch), 1)
        answers = [
            Answer(
                text=self._text(output.outputs[0]),
                prompt_end=encoded.prompt_end,
                prompt_tokens=encoded.length,
                completion_tokens=len(output.outputs[0].token_ids),
                seconds=seconds,
                measures={"truncated": float(encoded.truncated)},
                finish=str(output.outputs[0].finish_reason or ""),
            )
            for encoded, output in zip(batch, outputs, strict=True)
        ]
        return with_errors(answers, errors)

    def _text(self, output: Any) -> str:
        if not (self._keeps_tags and self._encoder):
            return str(output.text)
        return self._encoder.decode(list(output.token_ids))  # tags may be special tokens

    def unload(self) -> None:
        self._engine = self._encoder = None
        gc.collect()
        empty_device_caches()

    def provenance(self) -> Mapping[str, Any]:
        import vllm

        return {"adapter": "vllm_offline", "vllm": vllm.__version__}
