"""What the adapters of served models share: they ask an endpoint in one protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from benchfleet.domain.cell import Config, Model
from benchfleet.domain.failure import Stage
from benchfleet.errors import CellFailure
from benchfleet.models.base import (
    Adapter,
    Answer,
    LoadTarget,
    Prompt,
    PromptView,
    ServedModel,
    dense_alone,
)
from benchfleet.models.encoding import Encoder
from benchfleet.models.generation import Generation
from benchfleet.models.served import endpoint as endpoints
from benchfleet.models.served.abilities import probe_abilities
from benchfleet.models.served.endpoint import Endpoint
from benchfleet.models.served.preview import preview_encoder, request_view
from benchfleet.models.served.protocol import API, Protocol, Reply
from benchfleet.models.served.refusals import RefusedRequest, refusal, unreadable_reply

if TYPE_CHECKING:
    from benchfleet.models.served.client import Client

IDENTITY_KWARGS = (
    "api",
    "system",
    "logprobs",
    "body",
    "tokenizer",
)  # settings that are part of the identity


class ServedAdapter(Adapter):
    """A model behind a server. `load` asks it once for one token, and so checks address, key and
    model, and what the server offers."""

    independent: ClassVar[bool] = True
    takes_load: ClassVar[bool] = True
    chat_options: ClassVar[frozenset[str]] = frozenset({"system", "template_kwargs", "effort"})
    requires: ClassVar[tuple[str, ...]] = ("aiohttp",)
    extra: ClassVar[str] = "serving"
    outside: ClassVar[tuple[str, ...]] = endpoints.OUTSIDE
    keys: ClassVar[tuple[str, ...]] = (*endpoints.OUTSIDE, "api", "system")
    identity_kwargs: ClassVar[tuple[str, ...]] = IDENTITY_KWARGS
    protocol: ClassVar[type[Protocol]]

    def __init__(self, model: Model, *, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(model)
        self._clock = clock
        self._client: Client | None = None
        self._endpoint: Endpoint | None = None
        self._wire = self.protocol(self.model_name(), self.settings())
        self._abilities: dict[str, bool] = {}
        self._encoder: Encoder | None = None  # of previews

    def settings(self) -> Mapping[str, Any]:
        """The model's kwargs, with defaults."""
        return self.model.kwargs

    def model_name(self) -> str:
        """How requests name the model."""
        return self.model.source

    def open_endpoint(self) -> Endpoint:
        """Where the model is asked; called once, by `load`. Raises CellFailure."""
        raise NotImplementedError

    def open_client(self, endpoint: Endpoint) -> Client:
        """The client of that endpoint."""
        from benchfleet.models.served.client import Client

        return Client(endpoint)

    def check_model(self, client: Client) -> None:
        """Raise CellFailure if the server says that it does not have the model."""

    @property
    def abilities(self) -> Mapping[str, bool]:
        return self._abilities

    @property
    def requests_at_once(self) -> int:
        return int(self.model.kwargs.get("requests_at_once", endpoints.DEFAULT_AT_ONCE))

    @classmethod
    def check(cls, model: Model, config: Config) -> str | None:
        if why := dense_alone(config, "a served model"):
            return why
        settings = (*cls.outside, *cls.identity_kwargs)
        if unknown := sorted(set(model.kwargs) - set(settings)):
            return f"no setting {', '.join(map(repr, unknown))}; it takes {', '.join(settings)}"
        if config.chat is not None and model.kwargs.get("api", "chat") != "chat":
            return "api: completions has no chat template; leave 'chat' out, or 'api'"
        if model.kwargs.get("api", "chat") not in API:
            return f"api must be {' or '.join(API)}, not {model.kwargs['api']!r}"
        return endpoints.problem(model.kwargs)

    @classmethod
    def code(cls, model: Model) -> str:
        """The key that would be sent: a cell of others may name any key of this host's user."""
        key = model.kwargs.get("key")
        return f"the key {key} sent to {model.kwargs.get('url')}" if key else ""

    @classmethod
    def check_generation(cls, generation: Mapping[str, Any]) -> Mapping[str, str]:
        return Generation.problems(generation)

    def load(self) -> None:
        try:
            self._endpoint = self.open_endpoint()
            self._client = self.open_client(self._endpoint)
            self.check_model(self._client)
            ((_, reply),) = self._ask([Prompt(context="Hello")], {"max_new_tokens": 1})
            self._abilities = {
                "usage": reply.counted,
                **probe_abilities(self._client, self._wire),
            }
        except CellFailure as error:
            raise self.explain(error, "load") from error

    def configure(self, config: Config) -> None:
        """All configs ask the same server; its requests have the config's chat."""
        self._wire.chat = config.chat or {}

    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        answers = dict(self.answer_each(prompts, generation))
        return [answers[position] for position in range(len(prompts))]

    def answer_each(
        self, prompts: Sequence[Prompt], generation: Mapping[str, Any]
    ) -> Generator[tuple[int, Answer], None, None]:
        before = self._clock()
        try:
            for position, reply in self._ask(prompts, generation):
                now = self._clock()
                yield position, _answer(reply, now - before)
                before = now
        except CellFailure as error:
            raise self.explain(error, "benchmark") from error

    def end_asking(self, failure: CellFailure) -> bool:
        return self._client is not None and self._client.end_asking(failure)

    def open_preview(self, config: Config) -> None:
        """Open the tokenizer, if it is known here. No server is asked or started."""
        self._wire.chat = config.chat or {}
        self._abilities = {"prompt_logprobs": True}  # else no likelihood could be shown
        if folder := self.tokenizer():
            self._encoder = preview_encoder(folder, self.model.tokenizer_kwargs, config)

    def preview(self, prompt: Prompt, generation: Mapping[str, Any]) -> PromptView:
        return self.view(self._wire.body(prompt, generation))

    def view(self, body: Mapping[str, Any]) -> PromptView:
        """What a request asks, after `open_preview`."""
        return request_view(body, self._encoder, self.why_no_tokens())

    def why_no_tokens(self) -> str:
        """Why the tokens of a request cannot be known without the server, or ``""``."""
        return ""

    def served(self) -> ServedModel:
        path, url = self._wire.path, self._endpoint.url if self._endpoint else ""

        def ask(bodies: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Any]]:
            if (client := self._client) is None:
                raise RuntimeError("the model is not loaded")
            try:
                yield from client.post_each(path, bodies, keeps_errors=self.keeps_errors)
            except CellFailure as error:
                raise self.explain(error, "benchmark") from error

        return ServedModel(
            name=self.model_name(),
            url=url + path,
            api=self._wire.api,
            tokenizer=self.tokenizer(),
            requests_at_once=self.requests_at_once,
            abilities=self._abilities,
            ask=ask,
            view=self.view,
        )

    def load_target(self) -> LoadTarget:
        client, endpoint = self._client, self._endpoint
        if client is None or endpoint is None:
            raise RuntimeError("the model is not loaded")
        parts = urlsplit(endpoint.url)
        return LoadTarget(
            url=endpoint.url + self._wire.path,
            root=f"{parts.scheme}://{parts.netloc}",
            ndjson=self._wire.ndjson,
            body=partial(self._wire.body, stream=True),
            key=endpoint.key,
            timeout_s=endpoint.timeout_s,
            is_local=endpoint.is_local,
            abilities=self._abilities,
            tokenizer=self.tokenizer(),
            is_gone=self.is_gone,
            is_healthy=self.is_healthy,
            failure=self.server_failure,
            refused=self.refused,
        )

    def is_gone(self) -> bool:
        """Whether nothing listens at the server's address any more."""
        return self._client is not None and self._client.is_refused("/")

    def is_healthy(self) -> bool:
        """Whether the server answers at all."""
        return self._client is not None and self._client.reaches("/")

    def server_failure(self) -> CellFailure:
        """Why the server is of no use any more."""
        url = self._endpoint.url if self._endpoint else "the server"
        return CellFailure(
            stage="benchmark",
            kind="server_unavailable",
            message=f"{url} does not answer any more",
            retryable=True,
        )

    def refused(self, status: int, message: str) -> CellFailure:
        """The failure of a request that the server answered with an HTTP status and a message."""
        url = self._endpoint.url if self._endpoint else "the server"
        return self.explain(refusal(status, message, where=url), "benchmark")

    def tokenizer(self) -> str:
        """Where the model's tokenizer is; ``""`` if it is not known here."""
        return str(self.model.kwargs.get("tokenizer", ""))

    def unload(self) -> None:
        client, self._client = self._client, None
        if client:
            client.close()

    def provenance(self) -> Mapping[str, Any]:
        url = self._endpoint.url if self._endpoint else ""
        return {"adapter": self.model.adapter, "url": url, "abilities": dict(self._abilities)}

    def explain(self, failure: CellFailure, stage: Stage) -> CellFailure:
        """The failure as it is reported: of that stage, or of the setup that came before it."""
        message = str(failure)
        has_answered = self._client is not None and self._client.answered > 0
        if isinstance(failure, RefusedRequest) and self._endpoint:
            broke = failure.status == 500 and has_answered  # so its protocol is not to blame
            url = self._endpoint.url
            if not broke and (advice := self._wire.advice(failure.status, url, message)):
                message += f"; {advice}"
        return failure.with_message(message, stage="setup" if failure.stage == "setup" else stage)

    def _ask(
        self, prompts: Sequence[Prompt], generation: Mapping[str, Any]
    ) -> Iterator[tuple[int, Reply]]:
        if self._client is None:
            raise RuntimeError("the model is not loaded")
        bodies = (self._wire.body(prompt, generation) for prompt in prompts)
        path, keeps = self._wire.path, self.keeps_errors
        with closing(self._client.post_each(path, bodies, keeps_errors=keeps)) as values:
            for position, value in values:
                if isinstance(value, RefusedRequest):
                    finish = "refused" if value.filtered else "error"
                    yield position, Reply(text="", finish=finish, error=str(value))
                    continue
                try:
                    reply = self._wire.reply(value)
                except ValueError as error:
                    raise unreadable_reply(value, str(error), where=self._client.url) from error
                yield position, reply


def _answer(reply: Reply, seconds: float) -> Answer:
    return Answer(
        text=reply.text,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        seconds=seconds,
        finish=reply.finish,
        error=reply.error,
        reasoning=reply.reasoning,
        reasoning_tokens=reply.reasoning_tokens,
        measures={} if reply.logprob is None else {"logprob": reply.logprob},
    )
