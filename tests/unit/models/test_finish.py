"""What each adapter says of how an answer ended, as the one word that samples have for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from benchfleet import registry
from benchfleet.domain.cell import Model
from benchfleet.domain.sample_end import sample_end
from benchfleet.models.base import Prompt, adapter_class
from benchfleet.models.encoding import Encoded

OPENAI = {
    "stop": "stop",
    "length": "length",
    "content_filter": "refused",
    "abort": "error",  # vLLM and SGLang: the request was given up
    "error": "error",
    None: "stop",
}
OLLAMA = {"stop": "stop", "length": "length"}
REASONS: Mapping[str, Mapping[Any, str]] = {
    "llama_cpp": OPENAI,
    "llama_cpp_offline": {"stop": "stop", "length": "length", None: "stop"},
    "mock": {"stop": "stop"},
    "ollama": OLLAMA,
    "ollama_serve": OLLAMA,
    "openai": OPENAI,
    "sglang": OPENAI,
    "transformers": {False: "stop", True: "length"},  # whether the answer was cut off
    "transformers_serve": OPENAI,
    "vllm": OPENAI,
    "vllm_offline": {"stop": "stop", "length": "length", "abort": "error", None: "stop"},
}
ROWS = [(name, reason, end) for name, ends in REASONS.items() for reason, end in ends.items()]


def test_every_adapter_that_answers_is_in_the_table() -> None:
    assert set(REASONS) == set(registry._BUILT_IN["models"]) - {"none"}


@pytest.mark.parametrize(("name", "reason", "end"), ROWS)
def test_each_adapter_s_finish_reasons_have_one_end(
    name: str, reason: Any, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(name="m", adapter=name, source="m", digest="d")
    adapter: Any = adapter_class(name)(model)
    ask: Callable[..., str] = _ANSWERED.get(name, _served)
    finish = ask(adapter, reason, monkeypatch)
    assert sample_end({"predicted_answer": "7", "finish": finish}) == end
    assert sample_end({"predicted_answer": "", "finish": finish}) == end.replace("stop", "empty")


def _served(adapter: Any, reason: Any, _: Any) -> str:
    """The finish of a server's reply."""
    message = {"role": "assistant", "content": "7"}
    choice = {"message": message, "text": "7", "finish_reason": reason}
    ollama = {"message": message, "response": "7", "done": True, "done_reason": reason}
    return str(adapter._wire.reply({"choices": [choice], **ollama}).finish)


def _mock(adapter: Any, _: Any, __: Any) -> str:
    return _finish(adapter)


def _llama_cpp(adapter: Any, reason: Any, _: Any) -> str:
    """What llama-cpp-python returns for a chat."""
    choice = {"message": {"content": "7"}, "finish_reason": reason}
    reply = {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    adapter._llama = SimpleNamespace(
        reset=lambda: None, create_chat_completion=lambda *_, **__: reply
    )
    return _finish(adapter, Prompt(messages=(("user", "?"),)))


def _vllm(adapter: Any, reason: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """What vLLM's engine returns."""
    vllm: Any = ModuleType("vllm")
    vllm.SamplingParams = lambda **settings: settings
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    output = SimpleNamespace(text="7", token_ids=[1], finish_reason=reason)
    adapter._engine = SimpleNamespace(generate=lambda *_, **__: [SimpleNamespace(outputs=[output])])
    adapter._encoder = _encoder()
    return _finish(adapter)


def _transformers(adapter: Any, cut: Any, _: Any) -> str:
    """What the decoder returns."""
    weights = SimpleNamespace(weight=SimpleNamespace(device="cpu"))
    continuation = SimpleNamespace(ids=(1,), cut=cut)
    adapter._loaded = SimpleNamespace(
        encoder=_encoder(),
        model=SimpleNamespace(get_input_embeddings=lambda: weights, generation_config=None),
        decoder=SimpleNamespace(generate_batch=lambda *_: [continuation]),
    )
    adapter._attention_measures = lambda _: {}
    return _finish(adapter)


def _encoder() -> Any:
    encoded = Encoded(context=(), question=(1,), truncated=False)
    return SimpleNamespace(
        encode_all=lambda *_, **__: ([encoded], {}),
        stopper=lambda _: None,
        budget=lambda *_: None,
        decode=lambda _: "7",
    )


def _finish(adapter: Any, prompt: Prompt = Prompt(context="?")) -> str:  # noqa: B008 - frozen
    (answer,) = adapter.answer([prompt], {})
    return str(answer.finish)


_ANSWERED: dict[str, Callable[..., str]] = {
    "llama_cpp_offline": _llama_cpp,
    "mock": _mock,
    "transformers": _transformers,
    "vllm_offline": _vllm,
}
