"""Models on a server that benchfleet starts itself, on the devices of a slot."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from benchfleet.domain import units
from benchfleet.domain.cell import Config, Model
from benchfleet.domain.failure import Stage
from benchfleet.download import Download
from benchfleet.errors import CellFailure
from benchfleet.file_digest import file_digest
from benchfleet.models.fetch import check_current, declared_digest, hub_downloads, model_files
from benchfleet.models.gguf import gguf_digest, gguf_file
from benchfleet.models.served.adapter import IDENTITY_KWARGS, ServedAdapter
from benchfleet.models.served.endpoint import DEFAULT_AT_ONCE, Endpoint
from benchfleet.models.served.managed_server import START_TIMEOUT_S, ManagedServer
from benchfleet.models.served.ollama import DEFAULT_CONTEXT_TOKENS
from benchfleet.models.served.protocol import Ollama, OpenAI, Protocol
from benchfleet.models.served.recipes import RECIPES

if TYPE_CHECKING:
    from benchfleet.models.served.client import Client


class ManagedAdapter(ServedAdapter):
    """A model whose server the slot starts at `load` and keeps until `unload`.

    A server that died or stopped answering fails its cell by name; `configure` starts a new one
    for the next cell.
    """

    recipe: ClassVar[str]
    protocol: ClassVar[type[Protocol]] = OpenAI
    serves: ClassVar[bool] = True
    starts_server: ClassVar[bool] = True
    outside: ClassVar[tuple[str, ...]] = ("timeout", "requests_at_once", "start_timeout")
    keys: ClassVar[tuple[str, ...]] = (
        *("timeout", "requests_at_once", "start_timeout", "api", "system", "server"),
    )
    identity_kwargs: ClassVar[tuple[str, ...]] = (*IDENTITY_KWARGS, "server")
    health_every_s: ClassVar[float] = 30.0
    below: ClassVar[str] = "/v1"  # of the server's address, where the protocol begins

    def __init__(self, model: Model, **settings: Any) -> None:
        super().__init__(model, **settings)
        self._server: ManagedServer | None = None

    @classmethod
    def digest(cls, source: str) -> str:
        return declared_digest(source)

    @classmethod
    def fetch(cls, model: Model) -> Path:
        return model_files(model)

    @classmethod
    def downloads(cls, model: Model) -> Sequence[Download]:
        return hub_downloads(model)

    @classmethod
    def check(cls, model: Model, config: Config) -> str | None:
        server = model.kwargs.get("server") or {}
        if not isinstance(server, Mapping) or set(server) - {"args", "env"}:
            return "the keys of 'server' are args, env and start_timeout"
        args = [str(one) for one in server.get("args") or ()]
        variables = [str(name) for name in server.get("env") or ()]
        if setting := RECIPES[cls.recipe].address_setting(args, variables):
            return f"server: {setting!r} is not yours to set; benchfleet picks address and port"
        return super().check(model, config)

    @classmethod
    def code(cls, model: Model) -> str:
        """Arguments and variables, which may name code."""
        server = model.kwargs.get("server") or {}
        return f"a server with {server}" if server.get("args") or server.get("env") else ""

    @classmethod
    def server_command(cls, model: Model, *, gpus: int | None = None) -> list[str]:
        server = model.kwargs.get("server") or {}
        args = [*cls.options(model), *(str(one) for one in server.get("args") or ())]
        return RECIPES[cls.recipe].command_line(cls.path_of(model), args, gpus=gpus)

    @classmethod
    def options(cls, model: Model) -> list[str]:
        """What else its command line needs, before the user's own arguments."""
        return []

    @classmethod
    def unavailable(cls) -> str:
        """Whether the program of its server is here."""
        return RECIPES[cls.recipe].missing_program()

    @classmethod
    def path_of(cls, model: Model) -> str:
        """What the server opens."""
        return str(model.source)

    def model_name(self) -> str:
        return self.path_of(self.model)

    def open_endpoint(self) -> Endpoint:
        self.fetch(self.model)
        settings = self.model.kwargs
        timeout, environment = settings.get("start_timeout"), settings.get("server") or {}
        server = ManagedServer(
            RECIPES[self.recipe],
            self.server_command(self.model),
            environment={k: str(v) for k, v in (environment.get("env") or {}).items()},
            start_timeout_s=START_TIMEOUT_S if timeout is None else units.duration(timeout),
        )
        server.start()
        self._server = server
        return Endpoint(
            url=server.url + self.below,
            timeout_s=Endpoint.of(settings, url="").timeout_s,
            requests_at_once=int(settings.get("requests_at_once", DEFAULT_AT_ONCE)),
        )

    def open_client(self, endpoint: Endpoint) -> Client:
        from benchfleet.models.served.client import Client, HealthWatch

        server = self._server
        if server is None:
            raise RuntimeError("the server is not started")
        watch = HealthWatch(
            is_alive=lambda: server.is_alive,
            is_healthy=server.is_healthy,
            every_s=self.health_every_s,
        )
        return Client(endpoint, adapts=False, watch=watch)

    def tokenizer(self) -> str:
        folder = Path(self.model.source)
        own = str(folder) if (folder / "tokenizer_config.json").is_file() else ""
        return super().tokenizer() or own

    def why_no_tokens(self) -> str:
        args = (self.model.kwargs.get("server") or {}).get("args") or ()
        own = any("chat-template" in str(one) for one in args)
        return "the server is started with a chat template of its own" if own else ""

    def configure(self, config: Config) -> None:
        self.restart_if_dead()
        super().configure(config)

    def restart_if_dead(self) -> None:
        """Start the server again if it has ended."""
        if self._server is not None and not self._server.is_alive:
            self.unload()
        if self._server is None:
            self.load()

    def is_gone(self) -> bool:
        return self._server is not None and not self._server.is_alive

    def is_healthy(self) -> bool:
        return self._server is not None and self._server.is_healthy()

    def server_failure(self) -> CellFailure:
        if self._server is None:
            return super().server_failure()
        return self.explain(self._server.failure("benchmark"), "benchmark")

    def unload(self) -> None:
        super().unload()
        server, self._server = self._server, None
        if server:
            server.end()

    def explain(self, failure: CellFailure, stage: Stage) -> CellFailure:
        """A server that died or hangs is the reason of whatever failed. The message has the end
        of its log in any case."""
        server = self._server
        if server is None:
            return super().explain(failure, stage)
        if failure.kind == "server_died" or not server.is_alive:
            failure = server.failure(stage)
            self.unload()
            return super().explain(failure, stage)
        explained = super().explain(failure, stage)
        return explained.with_message(server.with_log(str(explained)))

    def provenance(self) -> Mapping[str, Any]:
        server = self._server
        if server is None:
            return super().provenance()
        return {
            **super().provenance(),
            "command": self.server_command(self.model),
            "load_seconds": server.load_seconds,
            "server_ram": server.memory(),
        }


class SglangAdapter(ManagedAdapter):
    """A model on SGLang's server."""

    recipe: ClassVar[str] = "sglang"
    example: ClassVar[str] = "{adapter: sglang, model: Qwen/Qwen3-0.6B}"


class TransformersServeAdapter(ManagedAdapter):
    """A model on ``transformers serve``."""

    recipe: ClassVar[str] = "transformers_serve"
    example: ClassVar[str] = "{adapter: transformers_serve, model: Qwen/Qwen3-0.6B}"


class LlamaCppAdapter(ManagedAdapter):
    """A GGUF file on llama-server, or on the server of llama-cpp-python."""

    recipe: ClassVar[str] = "llama_cpp"
    example: ClassVar[str] = "{adapter: llama_cpp, path: model.gguf}"

    @classmethod
    def digest(cls, source: str) -> str:
        return gguf_digest(source)

    @classmethod
    def downloads(cls, model: Model) -> Sequence[Download]:
        return ()

    @classmethod
    def fetch(cls, model: Model) -> Path:
        return gguf_file(model)


class OllamaServeAdapter(ManagedAdapter):
    """A pulled model on ``ollama serve``; its identity is the digest of its manifest."""

    recipe: ClassVar[str] = "ollama_serve"
    example: ClassVar[str] = "{adapter: ollama_serve, model: qwen3}"
    protocol: ClassVar[type[Protocol]] = Ollama
    serves: ClassVar[bool] = False
    identity_kwargs: ClassVar[tuple[str, ...]] = ("api", "system", "body", "num_ctx", "server")
    below: ClassVar[str] = ""

    def settings(self) -> Mapping[str, Any]:
        return {"num_ctx": DEFAULT_CONTEXT_TOKENS, **self.model.kwargs}

    @classmethod
    def digest(cls, source: str) -> str:
        name, _, tag = source.partition(":")
        parts: Sequence[str] = name.split("/")
        if len(parts) == 1:
            parts = ["library", *parts]
        if len(parts) == 2:
            parts = ["registry.ollama.ai", *parts]
        home = Path(os.environ.get("OLLAMA_MODELS") or "~/.ollama/models").expanduser()
        file = home.joinpath("manifests", *parts, tag or "latest")
        if not file.is_file():
            raise ValueError(f"{source} is not in {home}; run: ollama pull {source}")
        return f"ollama:{file_digest(file)}"

    @classmethod
    def downloads(cls, model: Model) -> Sequence[Download]:
        return ()

    @classmethod
    def fetch(cls, model: Model) -> Path:
        try:
            digest = cls.digest(model.source)
        except ValueError as error:
            raise CellFailure(stage="load", kind="model_not_found", message=str(error)) from error
        check_current(model.source, model.digest, digest)
        return Path()
