"""A GGUF file in the slot's own process, by llama-cpp-python."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.domain.cell import Config, Model
from benchfleet.errors import CellFailure
from benchfleet.models.base import Adapter, Answer, Prompt, PromptView, dense_alone
from benchfleet.models.encoding import Encoder
from benchfleet.models.generation import Generation
from benchfleet.models.gguf import gguf_digest, gguf_file
from benchfleet.models.loading import classify_load_errors

_SETTINGS = ("n_ctx", "chat_format", "flash_attn")  # of the identity
_OUTSIDE = ("n_threads", "n_gpu_layers", "n_batch")


class LlamaCppOfflineAdapter(Adapter):
    """A GGUF file, opened by llama-cpp-python without a server.

    `model_kwargs` takes `n_ctx` (the model's own), `chat_format` and `flash_attn`, and outside the
    identity `n_threads`, `n_gpu_layers` (all) and `n_batch`.
    """

    requires: ClassVar[tuple[str, ...]] = ("llama_cpp",)
    extra: ClassVar[str] = "llama-cpp"
    example: ClassVar[str] = "{adapter: llama_cpp_offline, path: model.gguf}"
    outside: ClassVar[tuple[str, ...]] = _OUTSIDE
    independent: ClassVar[bool] = True
    measures: ClassVar[frozenset[str] | None] = frozenset({"truncated"})

    def __init__(self, model: Model, *, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(model)
        self._clock = clock
        self._llama: Any = None

    @classmethod
    def digest(cls, source: str) -> str:
        return gguf_digest(source)

    @classmethod
    def fetch(cls, model: Model) -> Path:
        return gguf_file(model)

    @classmethod
    def check(cls, model: Model, config: Config) -> str | None:
        if why := dense_alone(config, "llama.cpp"):
            return why
        settings = (*_SETTINGS, *_OUTSIDE)
        if unknown := sorted(set(model.kwargs) - set(settings)):
            return f"no setting {', '.join(map(repr, unknown))}; it takes {', '.join(settings)}"
        return None

    @classmethod
    def check_generation(cls, generation: Mapping[str, Any]) -> Mapping[str, str]:
        return Generation.problems(generation)

    def load(self) -> None:
        file = self.fetch(self.model)
        with classify_load_errors("load"):
            from llama_cpp import Llama

            settings = {"n_ctx": 0, "n_gpu_layers": -1, **self.model.kwargs}
            self._llama = Llama(model_path=str(file), verbose=False, **settings)

    def configure(self, config: Config) -> None:
        """Every config is dense."""

    def open_preview(self, config: Config) -> None:
        """Open the file's vocabulary alone."""
        file = self.fetch(self.model)
        with classify_load_errors("load"):
            from llama_cpp import Llama

            self._llama = Llama(model_path=str(file), verbose=False, vocab_only=True)

    def preview(self, prompt: Prompt, generation: Mapping[str, Any]) -> PromptView:
        if prompt.messages:
            note = "llama.cpp applies the chat template of the file"
            return PromptView(messages=prompt.messages, note=note)
        settings, tokens = Generation.parse(generation), _Tokens(self._ready())
        limit = self.model.kwargs.get("n_ctx") or None
        encoder = Encoder(tokens, max_length=limit)
        return encoder.view(prompt, max_new_tokens=settings.max_new_tokens)

    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        return [answer for _, answer in self.answer_each(prompts, generation)]

    def answer_each(
        self, prompts: Sequence[Prompt], generation: Mapping[str, Any]
    ) -> Generator[tuple[int, Answer], None, None]:
        settings = Generation.parse(generation)
        for position, prompt in enumerate(prompts):
            yield position, self._answer(prompt, settings)

    def unload(self) -> None:
        llama, self._llama = self._llama, None
        if llama is not None:
            llama.close()

    def provenance(self) -> Mapping[str, Any]:
        return {
            "adapter": "llama_cpp_offline",
            "llama_cpp": version("llama-cpp-python"),
            "context": self._ready().n_ctx(),
        }

    def _answer(self, prompt: Prompt, settings: Generation) -> Answer:
        llama, begun = self._ready(), self._clock()
        sampling = {
            "max_tokens": settings.max_new_tokens,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "top_k": settings.top_k,
            "min_p": 0.0,  # llama.cpp's own default would drop unlikely tokens
            "repeat_penalty": settings.repetition_penalty or 1.0,
            "seed": settings.seed % 2**32,
            "stop": list(settings.stop),
        }
        llama.reset()  # no answer depends on the one before
        truncated = False
        if prompt.messages:
            messages = [{"role": role, "content": text} for role, text in prompt.messages]
            reply = llama.create_chat_completion(messages, **sampling)
            text = reply["choices"][0]["message"]["content"]
        else:
            try:
                encoded = Encoder(_Tokens(llama), max_length=llama.n_ctx()).encode(
                    Prompt(context=prompt.text), max_new_tokens=settings.max_new_tokens
                )
            except ValueError as error:
                if self.keeps_errors:
                    return Answer(text="", finish="error", error=str(error))
                raise CellFailure(
                    stage="benchmark", kind="user_error", message=str(error)
                ) from error
            truncated = encoded.truncated
            reply = llama.create_completion([*encoded.context, *encoded.question], **sampling)
            text = reply["choices"][0]["text"]
        return Answer(
            text=str(text or ""),
            prompt_tokens=reply["usage"]["prompt_tokens"],
            completion_tokens=reply["usage"]["completion_tokens"],
            seconds=self._clock() - begun,
            measures={"truncated": float(truncated)},
            finish=str(reply["choices"][0].get("finish_reason") or ""),
        )

    def _ready(self) -> Any:
        if self._llama is None:
            raise RuntimeError("the model is not loaded; call load first")
        return self._llama


class _Tokens:
    """The model's tokenizer as `Encoder` asks it."""

    is_fast = False
    model_max_length = None

    def __init__(self, llama: Any) -> None:
        self._llama = llama

    def __call__(self, text: str, *, add_special_tokens: bool, verbose: bool) -> Any:
        return {
            "input_ids": self._llama.tokenize(
                text.encode("utf-8", "replace"), add_bos=add_special_tokens, special=True
            )
        }

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._llama.detokenize([one]).decode("utf-8", "replace") for one in ids]
