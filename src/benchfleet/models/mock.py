"""A model that gives a fixed answer: for trying a campaign without any model."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from benchfleet.domain.cell import Config, Model
from benchfleet.models.base import Adapter, Answer, Prompt

_DEFAULTS: dict[str, Any] = {"answer": "mock", "seconds": 0.0, "load_seconds": 0.0}


class MockAdapter(Adapter):
    """Answers every prompt with `answer`, after `seconds`; loading takes `load_seconds`."""

    example: ClassVar[str] = "{name: m, adapter: mock}"
    chat_options: ClassVar[frozenset[str]] = frozenset({"system", "template_kwargs", "effort"})
    measures: ClassVar[frozenset[str] | None] = frozenset()

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._settings = {**_DEFAULTS, **model.kwargs}

    @classmethod
    def digest(cls, source: str) -> str:
        return f"mock:{source}"

    @classmethod
    def check(cls, model: Model, config: Config) -> str | None:
        unknown = sorted(set(model.kwargs) - set(_DEFAULTS))
        if unknown:
            return f"the mock adapter takes {', '.join(_DEFAULTS)}; not {', '.join(unknown)}"
        for name in ("seconds", "load_seconds"):
            value = model.kwargs.get(name, 0)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
                return f"{name} must be a number of seconds, not {value!r}"
        return None

    def load(self) -> None:
        time.sleep(self._settings["load_seconds"])

    def configure(self, config: Config) -> None:
        """Every config is the same to a mock."""

    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        text = str(self._settings["answer"])
        answers = []
        for prompt in prompts:
            if self._settings["seconds"]:
                time.sleep(self._settings["seconds"])
            answers.append(
                Answer(
                    text=text,
                    prompt_tokens=len(prompt.text.split()),
                    completion_tokens=len(text.split()),
                    seconds=self._settings["seconds"],
                    finish="stop",
                )
            )
        return answers

    def unload(self) -> None:
        """There is nothing to let go of."""

    def provenance(self) -> Mapping[str, Any]:
        return {"adapter": "mock"}
