"""What adapters take and give: prompts, answers, and models that are lent or served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchfleet.errors import CellFailure


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One text to continue: `context`, then `question`. An adapter may prefill a context once for
    all prompts that share it. Or `messages` with roles, for the model's own chat template."""

    context: str = ""
    question: str = ""
    messages: tuple[tuple[str, str], ...] = ()  # (role, text), in place of both

    @property
    def text(self) -> str:
        """All of it as one text."""
        if self.messages:
            return "\n".join(text for _, text in self.messages)
        return self.context + self.question


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a model said, and what it cost."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0  # of this prompt; a batch's time is shared out evenly
    measures: Mapping[str, float] = field(default_factory=dict)  # density, …
    finish: str = ""  # why it ended: stop, length, …; "" if the adapter does not say
    reasoning: str = ""  # if the server gives it apart from the text
    reasoning_tokens: int = 0  # as the server counts them
    prompt_end: str = ""  # the last characters of the prompt as the model got it, if known
    thought: Mapping[str, Any] = field(default_factory=dict)  # set by `ask`; see `Record.thought`
    error: str = ""  # why this prompt cannot be answered, ever; only if `Adapter.keeps_errors`


@dataclass(frozen=True, kw_only=True)
class PromptView:
    """One prompt as a model would get it, for ``plan --prompts``."""

    text: str = ""  # all of it, templated where the template is known here
    messages: tuple[tuple[str, str], ...] = ()  # (role, text), where a server applies its template
    tokens: tuple[int, ...] | None = None  # None: not known here; `note` says why
    pieces: tuple[str, ...] = ()  # what each token stands for
    context_tokens: int = 0  # of them, those that are prefilled apart from the question
    truncated: bool = False  # the text was too long for the model, and was cut
    continuation: str = ""  # whose likelihood is asked; the last of the text and of the tokens
    request: Mapping[str, Any] = field(default_factory=dict)  # the JSON that a server gets
    generation: Mapping[str, Any] = field(default_factory=dict)  # settings of the answer
    sample: str = ""  # its number in the benchmark, if known
    note: str = ""


def with_errors(answers: Sequence[Answer], errors: Mapping[int, str]) -> list[Answer]:
    """The answers with one of an error at each position of `errors`."""
    whole = list(answers)
    for position in sorted(errors):
        whole.insert(position, Answer(text="", finish="error", error=errors[position]))
    return whole


@dataclass(frozen=True, kw_only=True)
class Loan:
    """A loaded model, lent to a harness that runs the forward passes itself. Each pass uses the
    attention of the cell's config."""

    model: Any  # a model of transformers
    tokenizer: Any  # a copy: the harness may change it
    measures: Callable[[], Mapping[str, float]]  # density, … of the passes since the last call


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """A model behind a server, for a harness that makes the requests itself."""

    name: str  # as requests name it
    url: str  # where requests go
    api: str  # chat or completions
    tokenizer: str  # a folder or a hub name; "" if unknown
    requests_at_once: int
    abilities: Mapping[str, bool]  # as `Adapter.abilities`
    # bodies to replies as they come, each with the position of its body; retries are made; with
    # `Adapter.keeps_errors`, a CellFailure stands for the reply to a request refused for good
    ask: Callable[[Sequence[Mapping[str, Any]]], Iterable[tuple[int, Any]]]
    # of a body; after `Adapter.open_preview`
    view: Callable[[Mapping[str, Any]], PromptView] = lambda body: PromptView(request=body)


@dataclass(frozen=True, kw_only=True)
class LoadTarget:
    """A loaded model's server, for a load client that makes the requests itself."""

    url: str  # where requests go
    root: str  # the server's address without a path, for its pages such as /metrics
    ndjson: bool  # True: Ollama's streams, a JSON a line; False: server-sent events
    body: Callable[[Prompt, Mapping[str, Any]], dict[str, Any]]  # of a streamed request
    key: str = field(default="", repr=False)  # the secret itself; "" for none
    timeout_s: float = 600.0  # of one request
    is_local: bool = True  # on this machine, so that no proxy is used
    abilities: Mapping[str, bool] = field(default_factory=dict)  # as `Adapter.abilities`
    tokenizer: str = ""  # a folder or a hub name; "" if unknown
    is_gone: Callable[[], bool]  # whether its process ended, or nothing listens any more
    is_healthy: Callable[[], bool]  # whether it answers; may take seconds
    failure: Callable[[], CellFailure]  # why it is of no use any more; it is asked nothing after
    refused: Callable[[int, str], CellFailure]  # what an HTTP status with that message means
