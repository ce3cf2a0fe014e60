"""Models behind any server that speaks OpenAI's protocol."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from benchfleet.domain.cell import Config, Model
from benchfleet.domain.resource import server_name
from benchfleet.errors import CellFailure
from benchfleet.hints import hint
from benchfleet.models.served.adapter import ServedAdapter
from benchfleet.models.served.endpoint import Endpoint
from benchfleet.models.served.protocol import OpenAI, Protocol

if TYPE_CHECKING:
    from benchfleet.models.served.client import Client

URL_VARIABLE = "OPENAI_BASE_URL"


class OpenAIAdapter(ServedAdapter):
    """A model of a compatible server: `url` (or OPENAI_BASE_URL) ends in ``/v1``."""

    example: ClassVar[str] = "{adapter: openai, model: gpt-oss, url: 'http://lab2:8000/v1'}"
    protocol: ClassVar[type[Protocol]] = OpenAI
    serves: ClassVar[bool] = True

    @classmethod
    def digest(cls, source: str) -> str:
        """The model's name: such servers give no digest."""
        return f"openai:{source}"

    @classmethod
    def server_elsewhere(cls, kwargs: Mapping[str, Any]) -> str:
        return server_name(str(kwargs.get("url") or os.environ.get(URL_VARIABLE, "")))

    @classmethod
    def check(cls, model: Model, config: Config) -> str | None:
        if "url" not in model.kwargs and not os.environ.get(URL_VARIABLE):
            return f"has no server; give it a 'url' that ends in /v1, or set {URL_VARIABLE}"
        return super().check(model, config)

    def open_endpoint(self) -> Endpoint:
        url = self.model.kwargs.get("url") or os.environ.get(URL_VARIABLE, "")
        if not url:
            message = f"{self.model.name} has no 'url', and {URL_VARIABLE} is not set on this host"
            raise CellFailure(stage="load", kind="user_error", message=message)
        return Endpoint.of(self.model.kwargs, url=str(url))

    def check_model(self, client: Client) -> None:
        listed = client.get("/models")
        entries = listed.get("data") if isinstance(listed, Mapping) else None
        names = [str(one["id"]) for one in entries or () if isinstance(one, Mapping)]
        if names and self.model.source not in names:
            near: Any = hint(self.model.source, names)
            message = f"the server has no model {self.model.source!r}; {near}"
            raise CellFailure(stage="load", kind="model_not_found", message=message)
