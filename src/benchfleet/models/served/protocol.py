"""The two wire formats: a prompt to the body of a request, and the reply to an answer."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from benchfleet.models.base import Prompt
from benchfleet.models.served.refusals import lacks_template

API = ("chat", "completions")  # with the model's chat template, or the prompt as it is


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a server answered to one request."""

    text: str
    finish: str = ""  # stop, length, …; "" if the server does not say
    prompt_tokens: int = 0  # of the server's own count; 0 without one
    completion_tokens: int = 0
    logprob: float | None = None  # the mean of the answer's tokens; None if not offered
    counted: bool = False  # whether the server counted tokens
    reasoning: str = ""  # if the server gives it apart from the answer
    reasoning_tokens: int = 0  # of the server's own count
    error: str = ""  # why the server refuses this request for good


class Protocol(ABC):
    """One wire format, for one model of a server."""

    paths: ClassVar[Mapping[str, str]]  # by API, below the endpoint's URL
    ndjson: ClassVar[bool] = False  # how streams come: a JSON a line, or server-sent events

    def __init__(self, model: str, settings: Mapping[str, Any]) -> None:
        self._model, self._settings = model, settings
        self.api = str(settings.get("api", "chat"))
        self.chat: Mapping[str, Any] = {}  # of the config: template_kwargs, effort

    @property
    def path(self) -> str:
        """Where requests go, below the endpoint's URL."""
        return self.paths[self.api]

    def advice(self, status: int, url: str, message: str = "") -> str:
        """What may help if the endpoint at `url` answers that HTTP status with that message; ``""``
        if not known."""
        return ""

    @abstractmethod
    def body(
        self, prompt: Prompt, generation: Mapping[str, Any], *, stream: bool = False
    ) -> dict[str, Any]:
        """The JSON of one request. `generation` is as the campaign has it, without defaults."""

    @abstractmethod
    def reply(self, value: Mapping[str, Any]) -> Reply:
        """The answer in a whole reply. Raises ValueError, saying what is wrong with it, for
        another object."""

    def messages(self, prompt: Prompt) -> list[dict[str, str]]:
        """The prompt as messages: its own, or all of its text as the user's."""
        roles = [role for role, _ in prompt.messages]
        system = "" if "system" in roles else self._settings.get("system")
        first = [{"role": "system", "content": str(system)}] if system else []
        own = [{"role": role, "content": text} for role, text in prompt.messages]
        return first + (own or [{"role": "user", "content": prompt.text}])


class OpenAI(Protocol):
    """The protocol of OpenAI, which most servers speak."""

    paths: ClassVar[Mapping[str, str]] = {
        "chat": "/chat/completions",
        "completions": "/completions",
    }

    def advice(self, status: int, url: str, message: str = "") -> str:
        if self.api == "chat" and (status == 500 or lacks_template(message)):
            return "if the model has no chat template, set api: completions"
        if status == 400 and "context length" in message.lower():
            return "ask for fewer max_new_tokens, or start the server with a longer context"
        if status == 404 and not url.endswith("/v1"):
            return "the model's url does not end in /v1, as that of most servers does"
        return ""

    def body(
        self, prompt: Prompt, generation: Mapping[str, Any], *, stream: bool = False
    ) -> dict[str, Any]:
        remaining = dict(generation)
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": remaining.pop("max_new_tokens", 128),
            "temperature": remaining.pop("temperature", 0.0),
            "stream": stream,
        }
        if self.api == "chat":
            body["messages"] = self.messages(prompt)
        else:
            body["prompt"] = prompt.text
        if stream:
            body["stream_options"] = {"include_usage": True}
        if kwargs := self.chat.get("template_kwargs"):
            body["chat_template_kwargs"] = dict(kwargs)
        if effort := self.chat.get("effort"):
            body["reasoning_effort"] = effort
        if self._settings.get("logprobs"):
            body["logprobs"] = True if self.api == "chat" else 1
        body |= {name: value for name, value in remaining.items() if value not in (None, (), [], 0)}
        if "seed" in generation:
            body["seed"] = generation["seed"]
        return {**body, **self._settings.get("body", {})}

    def reply(self, value: Mapping[str, Any]) -> Reply:
        choices = _member(_object(value, "it"), "choices", "it")
        if not isinstance(choices, list) or not choices:
            raise ValueError(f"its 'choices' are {_kind(choices)}, not a list of answers")
        choice = _object(choices[0], "its first choice")
        usage = _object(value.get("usage") or {}, "its 'usage'")
        if self.api == "chat":
            message = _object(_member(choice, "message", "its first choice"), "its message")
            text = _member(message, "content", "its message")
        else:
            message, text = {}, _member(choice, "text", "its first choice")
        details = _object(usage.get("completion_tokens_details") or {}, "its token details")
        return Reply(
            text=str(text or ""),
            reasoning=str(message.get("reasoning_content") or message.get("reasoning") or ""),
            reasoning_tokens=_count(details, "reasoning_tokens"),
            finish=str(choice.get("finish_reason") or ""),
            prompt_tokens=_count(usage, "prompt_tokens"),
            completion_tokens=_count(usage, "completion_tokens"),
            logprob=_reply_logprob(choice),
            counted="completion_tokens" in usage,
        )


class Ollama(Protocol):
    """Ollama's own protocol; ``completions`` asks without the model's template."""

    paths: ClassVar[Mapping[str, str]] = {"chat": "/api/chat", "completions": "/api/generate"}
    ndjson: ClassVar[bool] = True
    _OPTIONS: ClassVar[Mapping[str, str]] = {
        "max_new_tokens": "num_predict",
        "repetition_penalty": "repeat_penalty",
    }

    def body(
        self, prompt: Prompt, generation: Mapping[str, Any], *, stream: bool = False
    ) -> dict[str, Any]:
        options = {"num_ctx": self._settings["num_ctx"], "num_predict": 128, "temperature": 0.0}
        for name, value in generation.items():
            if value is not None:
                options[self._OPTIONS.get(name, name)] = value
        if isinstance(options.get("stop"), str):
            options["stop"] = [options["stop"]]
        # Without these two a long prompt is cut without a word.
        body = {"model": self._model, "stream": stream, "truncate": False, "shift": False}
        if self.api == "chat":
            body["messages"] = self.messages(prompt)
            think = (self.chat.get("template_kwargs") or {}).get("enable_thinking")
            think = self.chat.get("effort") or think
            body |= {} if think is None else {"think": think}
        else:
            body |= {"prompt": prompt.text, "raw": True}
        return {**body, "options": options, **self._settings.get("body", {})}

    def reply(self, value: Mapping[str, Any]) -> Reply:
        if not _member(_object(value, "it"), "done", "it"):
            raise ValueError("it is not whole: its 'done' is false")
        message = _object(value.get("message") or {}, "its message")
        if self.api == "chat":
            text = _member(message, "content", "its message")
        else:
            text = _member(value, "response", "it")
        return Reply(
            text=str(text),
            reasoning=str(message.get("thinking") or ""),
            finish=str(value.get("done_reason", "")),
            prompt_tokens=_count(value, "prompt_eval_count"),
            completion_tokens=_count(value, "eval_count"),
            counted="eval_count" in value,
        )


def _object(value: Any, name: str) -> Mapping[str, Any]:
    """A JSON object. Raises ValueError for anything else."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} is {_kind(value)}, not an object")
    return value


def _member(value: Mapping[str, Any], name: str, owner: str) -> Any:
    """A member of an object. Raises ValueError if it is missing."""
    if name not in value:
        raise ValueError(f"{owner} has no {name!r}")
    return value[name]


def _count(value: Mapping[str, Any], name: str) -> int:
    """A number of tokens; 0 if it is not given. Raises ValueError for what is no number."""
    count = value.get(name) or 0
    try:
        return int(count)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"its {name!r} is {count!r:.60}, not a number") from None


def _kind(value: Any) -> str:
    """What a JSON value is, in words."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (list, str, Mapping)) and not value:
        return "empty"
    names = {str: "a text", list: "a list", dict: "an object", int: "a number", float: "a number"}
    return names.get(type(value), "of another kind")


def _reply_logprob(choice: Mapping[str, Any]) -> float | None:
    """The mean of the answer's tokens. Raises ValueError for another form of log-probabilities."""
    try:
        return _mean_logprob(choice.get("logprobs"))
    except (KeyError, TypeError, AttributeError):
        raise ValueError("its 'logprobs' have another form") from None


def has_logprobs(chunk: Mapping[str, Any]) -> bool:
    """Whether a reply of OpenAI's protocol, or a part of one, has log-probabilities."""
    return any(_mean_logprob(one.get("logprobs")) is not None for one in chunk.get("choices") or ())


def _mean_logprob(value: Mapping[str, Any] | None) -> float | None:
    """Of both forms in which OpenAI's protocol has them."""
    value = value or {}
    numbers = [one["logprob"] for one in value.get("content") or ()]
    numbers = numbers or [one for one in value.get("token_logprobs") or () if one is not None]
    return math.fsum(numbers) / len(numbers) if numbers else None
