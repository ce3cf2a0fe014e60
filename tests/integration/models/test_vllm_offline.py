"""What the adapter of vLLM's offline engine hands over. The engine itself is a stand-in here:
`tests/contract` runs the adapter with the real one where it is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from benchfleet.domain.cell import Model
from benchfleet.errors import CellFailure
from benchfleet.models.base import Prompt
from benchfleet.models.vllm_offline import VllmOfflineAdapter
from tiny_models import saved_model


class Engine:
    """Keeps what it is given, and answers with two tokens."""

    asked: list[Any] = []  # noqa: RUF012

    def __init__(self, model: str, **settings: Any) -> None:
        from transformers import AutoTokenizer

        self.settings = settings
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=40))

    def get_tokenizer(self) -> Any:
        return self.tokenizer

    def generate(self, requests: Any, sampling: Any, use_tqdm: bool) -> Any:
        if len(requests) > 4:
            raise RuntimeError("CUDA out of memory")
        Engine.asked.append((requests, sampling))
        answer = SimpleNamespace(text="ok", token_ids=[1, 2], finish_reason="length")
        return [SimpleNamespace(outputs=[answer]) for _ in requests]


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VllmOfflineAdapter:
    module: Any = ModuleType("vllm")
    module.LLM, module.__version__ = Engine, "0"
    module.SamplingParams = lambda **settings: settings
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setattr(Engine, "asked", [])
    source = str(saved_model(tmp_path / "tiny", "llama"))
    digest = VllmOfflineAdapter.digest(source)
    model = Model(name="m", adapter="vllm_offline", source=source, digest=digest)
    adapter = VllmOfflineAdapter(model)
    adapter.load()
    return adapter


def test_settings_and_tokens_reach_the_engine_with_one_bos(adapter: VllmOfflineAdapter) -> None:
    bos = adapter._engine.tokenizer.bos_token_id
    prompts = [Prompt(context="a ", question="b"), Prompt(messages=(("user", "hi"),))]
    settings = {"max_new_tokens": 2, "temperature": 0, "stop": "x", "seed": 3}
    answers = adapter.answer(prompts, settings)
    ((requests, sampling),) = Engine.asked
    assert [request["prompt_token_ids"].count(bos) for request in requests] == [1, 1]
    assert requests[1]["prompt_token_ids"][0] == bos
    assert sampling == {
        "max_tokens": 2,
        "temperature": 0,
        "top_p": 1.0,
        "top_k": -1,
        "seed": 3,
        "stop": ["x"],
        "repetition_penalty": 1.0,
    }
    assert [(one.text, one.completion_tokens, one.finish) for one in answers] == [
        ("ok", 2, "length"),
        ("ok", 2, "length"),
    ]


def test_a_prompt_that_is_too_long_loses_its_middle(adapter: VllmOfflineAdapter) -> None:
    (answer,) = adapter.answer([Prompt(context="word " * 100, question="?")], {"max_new_tokens": 4})
    ((requests, _),) = Engine.asked
    assert len(requests[0]["prompt_token_ids"]) == 36
    assert answer.measures == {"truncated": 1.0}


def test_memory_that_runs_out_is_named_so(adapter: VllmOfflineAdapter) -> None:
    with pytest.raises(CellFailure) as caught:
        adapter.answer([Prompt(context="a")] * 5, {"max_new_tokens": 1})
    assert (caught.value.kind, caught.value.is_retryable) == ("oom", True)


def test_code_in_its_settings_is_named(adapter: VllmOfflineAdapter) -> None:
    model = Model(
        name="m",
        adapter="vllm_offline",
        source="m",
        digest="d",
        model_kwargs={"trust_remote_code": True},
    )
    assert "trust_remote_code" in VllmOfflineAdapter.code(model)
    assert VllmOfflineAdapter.code(adapter.model) == ""
