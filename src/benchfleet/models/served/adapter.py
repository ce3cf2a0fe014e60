"""What the adapters of served models share: they ask an endpoint in one protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar

from benchfleet.domain.cell import Config, Model
from benchfleet.errors import CellFailure
from benchfleet.models.base import Adapter, Answer, Prompt, ServedModel
from benchfleet.models.generation import Generation
from benchfleet.models.served import endpoint as endpoints
from benchfleet.models.served.endpoint import Endpoint
from benchfleet.models.served.protocol import API, Protocol, Reply

if TYPE_CHECKING:
    from benchfleet.models.served.client import Client

ABILITIES = ("usage", "logprobs")
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
    def requests_at_once(self) -> int:
        return int(self.model.kwargs.get("requests_at_once", endpoints.DEFAULT_AT_ONCE))

    @classmethod
    def check(cls, model: Model, config: Config) -> str | None:
        if any(step.name != "dense" for step in config.attention):
            return "a served model takes no attention configs; leave this one out"
        settings = (*cls.outside, *cls.identity_kwargs)
        if unknown := sorted(set(model.kwargs) - set(settings)):
            return f"no setting {', '.join(map(repr, unknown))}; it takes {', '.join(settings)}"
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
        except CellFailure as error:
            raise self.explain(error, "load") from error
        self._abilities = {"usage": reply.counted, "logprobs": reply.logprob is not None}

    def configure(self, config: Config) -> None:
        """All configs ask the same server."""

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

    def served(self) -> ServedModel:
        client, endpoint = self._client, self._endpoint
        if client is None or endpoint is None:
            raise RuntimeError("the model is not loaded")
        path = self._wire.path

        def ask(bodies: Sequence[Mapping[str, Any]]) -> list[Any]:
            try:
                return client.post_all(path, bodies)
            except CellFailure as error:
                raise self.explain(error, "benchmark") from error

        return ServedModel(
            name=self.model_name(),
            url=endpoint.url + path,
            api=self._wire.api,
            tokenizer=self.tokenizer(),
            requests_at_once=endpoint.requests_at_once,
            ask=ask,
        )

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

    def explain(self, failure: CellFailure, stage: str) -> CellFailure:
        """The failure as it is reported: of that stage."""
        return CellFailure(
            stage=stage, kind=failure.kind, message=str(failure), retryable=failure.is_retryable
        )

    def _ask(
        self, prompts: Sequence[Prompt], generation: Mapping[str, Any]
    ) -> Iterator[tuple[int, Reply]]:
        if self._client is None:
            raise RuntimeError("the model is not loaded")
        bodies = (self._wire.body(prompt, generation) for prompt in prompts)
        with closing(self._client.post_each(self._wire.path, bodies)) as values:
            for position, value in values:
                try:
                    reply = self._wire.reply(value)
                except (KeyError, IndexError, TypeError, ValueError) as error:
                    message = f"the server's reply lacks {error}; is it a server of this protocol?"
                    raise CellFailure(
                        stage="benchmark", kind="bad_request", message=message
                    ) from error
                yield position, reply


def _answer(reply: Reply, seconds: float) -> Answer:
    return Answer(
        text=reply.text,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        seconds=seconds,
        finish=reply.finish,
        measures={} if reply.logprob is None else {"logprob": reply.logprob},
    )
