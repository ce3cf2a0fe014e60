"""Options of chat and thinking that an adapter cannot set are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from benchfleet.campaign.chat import unsupported
from benchfleet.domain.cell import Config, Model
from benchfleet.models.base import adapter_class

BUDGET = {"thinking": {"start": "<t>", "end": "</t>", "budget": 8}}
EFFORT = {"chat": {"effort": "low"}}
KWARGS = {"chat": {"template_kwargs": {"enable_thinking": False}}}


@pytest.mark.parametrize(
    ("adapter", "settings", "refused"),
    [
        ("transformers", BUDGET, None),
        *(
            (name, BUDGET, "budget")
            for name in (
                *("openai", "ollama", "vllm", "sglang", "llama_cpp", "transformers_serve"),
                *("ollama_serve", "vllm_offline", "llama_cpp_offline", "mock"),
            )
        ),
        ("transformers", EFFORT, None),
        ("vllm_offline", EFFORT, None),
        ("openai", EFFORT, None),
        ("llama_cpp_offline", EFFORT, "effort"),
        ("openai", KWARGS, None),
        ("llama_cpp_offline", KWARGS, "template_kwargs"),
    ],
)
def test_what_an_adapter_cannot_set_is_named(
    adapter: str, settings: dict[str, Any], refused: str | None
) -> None:
    said = unsupported(adapter_class(adapter), Config(name="c", **settings))
    assert said == (refused and f"the adapter cannot set {refused}; leave it out")


def test_ollama_takes_no_other_variable_of_a_template() -> None:
    model = Model(name="m", adapter="ollama", source="m", digest="d")
    config = Config(name="c", chat={"template_kwargs": {"style": "short"}})
    assert "remove style" in str(adapter_class("ollama").check(model, config))
