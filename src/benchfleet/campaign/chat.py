"""The keys ``chat`` and ``thinking`` of configs and models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchfleet.domain.cell import Config
from benchfleet.domain.thinking import Thinking
from benchfleet.models.base import Adapter

from .entry import Entry
from .schema_types import MAPPING, TEXT, TRUTH, Shape, doc, mapping, whole

CHAT_KEYS: Mapping[str, Shape] = {
    "system": doc(TEXT, "the system message"),
    "template_kwargs": doc(MAPPING, "variables of the chat template, such as enable_thinking"),
    "effort": doc(TEXT, "of reasoning, for models that take one: low, medium, high"),
}
THINKING_KEYS: Mapping[str, Shape] = {
    "start": doc(TEXT, "the tag before the reasoning (<think>)"),
    "end": doc(TEXT, "the tag after it (</think>)"),
    "budget": doc(whole(), "tokens of reasoning at most; then the block is closed"),
    "opened": doc(TRUTH, "the template opens the block, on a server that hides its prompts"),
}
CHAT: Shape = doc(mapping(CHAT_KEYS), "prompts are messages, by the model's chat template")
THINKING: Shape = doc(mapping(THINKING_KEYS), "how the model marks its reasoning: never scored")


def read_chat(entry: Entry) -> dict[str, Any] | None:
    """The chat's settings; None where there is none."""
    fields = entry.fields(CHAT_KEYS)
    if entry.absent:
        return None
    values = {
        "system": fields["system"].text(),
        "template_kwargs": fields["template_kwargs"].kwargs(),
        "effort": fields["effort"].text(),
    }
    return {name: value for name, value in values.items() if value}


def read_thinking(entry: Entry) -> dict[str, Any] | None:
    """The tags and the budget, with defaults; None where there are none."""
    entry.fields(THINKING_KEYS)
    if entry.absent or not entry.right:
        return None
    try:
        thinking = Thinking.parse(entry.value)
    except ValueError as error:
        entry.wrong(str(error))
        return None
    return {
        "start": thinking.start,
        "end": thinking.end,
        **({"budget": thinking.budget} if thinking.budget else {}),
        **({"opened": True} if thinking.opened else {}),
    }


def unsupported(adapter: type[Adapter], config: Config) -> str | None:
    """What of a config's chat or thinking the adapter cannot do; None if it can do all."""
    options = {*(config.chat or ())}
    if (config.thinking or {}).get("budget"):
        options.add("budget")
    if unknown := sorted(options - adapter.chat_options):
        return f"the adapter cannot set {', '.join(unknown)}; leave it out"
    return None
