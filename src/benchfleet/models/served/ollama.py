"""Models of an Ollama server that runs already."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from benchfleet.domain.cell import Config, Model
from benchfleet.domain.resource import server_name
from benchfleet.errors import CellFailure
from benchfleet.hints import hint
from benchfleet.models.served.adapter import ServedAdapter
from benchfleet.models.served.endpoint import Endpoint
from benchfleet.models.served.protocol import Ollama, Protocol

if TYPE_CHECKING:
    from benchfleet.models.served.client import Client

URL_VARIABLE = "OLLAMA_HOST"
DEFAULT_URL = "http://127.0.0.1:11434"
DEFAULT_CONTEXT_TOKENS = 8192  # Ollama's own default depends on the GPU
_LIST_TIMEOUT_S = 10.0


class OllamaAdapter(ServedAdapter):
    """A model of Ollama, by its own API; its identity is the digest that the server has for it."""

    example: ClassVar[str] = "{adapter: ollama, model: qwen3}"
    protocol: ClassVar[type[Protocol]] = Ollama
    identity_kwargs: ClassVar[tuple[str, ...]] = ("api", "system", "body", "num_ctx")

    def settings(self) -> Mapping[str, Any]:
        return {"num_ctx": DEFAULT_CONTEXT_TOKENS, **self.model.kwargs}

    @classmethod
    def check(cls, model: Model, config: Config) -> str | None:
        kwargs = (config.chat or {}).get("template_kwargs") or {}
        if unknown := sorted(set(kwargs) - {"enable_thinking"}):
            names = ", ".join(unknown)
            return f"Ollama takes no template_kwargs but enable_thinking; remove {names}"
        return super().check(model, config)

    @classmethod
    def server_elsewhere(cls, kwargs: Mapping[str, Any]) -> str:
        return server_name(server_url(kwargs))

    @classmethod
    def digest(cls, source: str) -> str:
        return cls.identify(source, {})

    @classmethod
    def identify(cls, source: str, kwargs: Mapping[str, Any]) -> str:
        """The server's digest of the model. Raises ValueError, saying what to do, if the server
        does not answer or lacks the model."""
        url = server_url(kwargs)
        request = urllib.request.Request(f"{url}/api/tags")  # noqa: S310 - the campaign's own
        try:
            with urllib.request.urlopen(request, timeout=_LIST_TIMEOUT_S) as reply:  # noqa: S310
                listed = json.load(reply)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"no Ollama answers at {url} ({error}); start it, or correct 'url' or "
                f"{URL_VARIABLE}: a cell is identified by the digest of its model"
            ) from None
        return f"ollama:{_digest_of(source, listed)}"

    def open_endpoint(self) -> Endpoint:
        return Endpoint.of(self.model.kwargs, url=server_url(self.model.kwargs))

    def check_model(self, client: Client) -> None:
        try:
            digest = _digest_of(self.model.source, client.get("/api/tags") or {})
        except ValueError as error:
            raise CellFailure(stage="load", kind="model_not_found", message=str(error)) from error
        if f"ollama:{digest}" != self.model.digest:
            message = (
                f"{self.model.source} has changed on the server since the campaign was read "
                f"(now {digest[:19]}); run the campaign again"
            )
            raise CellFailure(stage="load", kind="user_error", message=message)


def server_url(kwargs: Mapping[str, Any]) -> str:
    """The address of the server, without a slash at its end."""
    if url := kwargs.get("url"):
        return str(url).rstrip("/")
    host = os.environ.get(URL_VARIABLE, "").strip().rstrip("/")
    if not host:
        return DEFAULT_URL
    host = host if "://" in host else f"http://{host}"
    if host.count(":") == 1:
        host += ":11434"
    return host.replace("//0.0.0.0:", "//127.0.0.1:")


def _digest_of(source: str, listed: Mapping[str, Any]) -> str:
    models = {str(one["name"]): str(one["digest"]) for one in listed.get("models", ())}
    for name in (source, f"{source}:latest"):
        if name in models:
            return models[name]
    raise ValueError(f"Ollama has no model {source!r}; {hint(source, models)} (or: ollama pull)")
