"""A server that simulates a model behind OpenAI's and Ollama's protocols, with known answers.

`SimulatedServer` serves on a free loopback port in a thread. Its answers are a pure function of the
prompt, so a test computes what it expects. Each request takes the next `Behaviour` of `script`, and
then `otherwise`. `requests` has every request as it came. `python -m
benchfleet.testing.simulated_server --port N` serves until it is ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from aiohttp import web

from benchfleet.testing.simulated_answers import SimulatedReply

Fault = Literal[
    "",
    "error_in_stream",  # an error object after half of the chunks
    "no_last_object",  # the stream ends without its last object
    "dropped",  # the connection breaks after half of the chunks
    "reset",  # the connection breaks before the first byte
    "cut",  # half of a reply that is no stream, with HTTP 200 and nothing that says so
    "aborted",  # half of the answer, with HTTP 200 and the finish reason abort
]
MODEL, DIGEST = "simulated", "sha256:" + "5" * 64


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """How one request is answered."""

    tokens: int = 8  # of the answer, unless the request asks for fewer
    tokens_per_chunk: int = 1
    first_s: float = 0.0  # before the first chunk
    gap_s: float = 0.0  # between two chunks
    stall_s: float = 0.0  # before the second half of the chunks
    status: int = 200  # another one is the answer, with an error object
    retry_after: str = ""  # that header
    code: str = ""  # of the error object, such as insufficient_quota
    role_chunk: bool = True  # an empty chunk with the role comes first
    ignores: frozenset[str] = frozenset()  # fields of requests that it has no use for
    refuses: frozenset[str] = frozenset()  # fields of requests that it answers with 422
    fault: Fault = ""


@dataclass(frozen=True, kw_only=True)
class Received:
    """A request as it came."""

    path: str
    body: dict[str, Any]
    key: str  # the bearer token; "" without one


@dataclass(kw_only=True)
class SimulatedServer:
    """The server; a context manager."""

    script: deque[Behaviour] = field(default_factory=deque)
    otherwise: Behaviour = Behaviour()
    model: str = MODEL
    loras: Mapping[str, str] = field(default_factory=dict)  # folders of LoRA adapters, by name
    key: str = ""  # that requests must bring; "" for none
    port: int = 0
    requests: list[Received] = field(default_factory=list)
    most_at_once: int = 0  # requests that were answered at the same time
    written: list[list[int]] = field(default_factory=list)  # `perf_counter_ns` of each chunk
    metrics: str = ""  # the page /metrics; "" for none
    # of a request's body: the text of the answer, or a behaviour; None leaves it as it is
    respond: Callable[[dict[str, Any]], str | Behaviour | None] | None = None
    _now: int = 0
    _stalled_until: float = 0.0

    def stall(self, seconds: float) -> None:
        """Send no chunk for so long, to anybody."""
        self._stalled_until = time.monotonic() + seconds

    @property
    def url(self) -> str:
        """The root; OpenAI's protocol is below ``/v1``."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> SimulatedServer:
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    def _serve(self, ready: threading.Event) -> None:
        self._loop.run_until_complete(self.serve(ready))

    async def serve(self, ready: threading.Event | None = None) -> None:
        """Serve until the context ends."""
        self._stop = asyncio.Event()
        app = web.Application(client_max_size=2**28)
        app.add_routes(
            [
                web.get("/health", _healthy),
                web.get("/metrics", self._metrics),
                web.get("/v1/models", self._models),
                web.get("/api/version", _version),
                web.get("/api/tags", self._tags),
                *(web.post(path, self._answer) for path in _PATHS),
            ]
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        self.port = runner.addresses[0][1]
        if ready:
            ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _models(self, _: web.Request) -> web.Response:
        names = (self.model, *self.loras)
        return web.json_response({"object": "list", "data": [{"id": name} for name in names]})

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=self.metrics, status=200 if self.metrics else 404)

    async def _tags(self, _: web.Request) -> web.Response:
        return web.json_response({"models": [{"name": self.model, "digest": DIGEST}]})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.requests.append(Received(path=request.path, body=body, key=bearer))
        behaviour = self.script.popleft() if self.script else self.otherwise
        scripted = self.respond(body) if self.respond else None
        behaviour = scripted if isinstance(scripted, Behaviour) else behaviour
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            if self.key and bearer != self.key:
                behaviour = Behaviour(status=401, code="invalid_api_key")
            elif body.get("model") not in (self.model, *self.loras):
                behaviour = Behaviour(status=404, code="model_not_found")
            if behaviour.status != 200:
                return _refusal(request.path, behaviour)
            if behaviour.fault == "reset":
                _break_connection(request)
            if behaviour.refuses.intersection(body):
                return _refusal(request.path, replace(behaviour, status=422))
            body = {name: body[name] for name in body if name not in behaviour.ignores}
            reply = SimulatedReply(
                request.path,
                body,
                tokens=behaviour.tokens,
                per_chunk=behaviour.tokens_per_chunk,
                text=scripted if isinstance(scripted, str) else None,
                adapted=self.loras.get(str(body.get("model")), ""),
            )
            if body.get("stream", request.path.startswith("/api/")):
                return await self._streamed(request, reply, behaviour)
            await asyncio.sleep(behaviour.first_s + behaviour.gap_s * (len(reply.chunks) - 1))
            if behaviour.fault == "aborted":
                reply.text, reply.finish = reply.text[: len(reply.text) // 2], "abort"
            whole = json.dumps(reply.whole())
            text = whole[: len(whole) // 2] if behaviour.fault == "cut" else whole
            return web.json_response(text=text)
        finally:
            self._now -= 1

    async def _streamed(
        self, request: web.Request, reply: SimulatedReply, behaviour: Behaviour
    ) -> web.StreamResponse:
        kind = "application/x-ndjson" if reply.ollama else "text/event-stream"
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        if reply.chat and not reply.ollama and behaviour.role_chunk:
            await response.write(reply.role_line())
        times: list[int] = []
        self.written.append(times)
        for number, chunk in enumerate(reply.chunks):
            await asyncio.sleep(behaviour.gap_s if number else behaviour.first_s)
            if number == len(reply.chunks) // 2:
                await asyncio.sleep(behaviour.stall_s)
                if behaviour.fault == "error_in_stream":
                    await response.write(reply.error_line())
                    return response
                if behaviour.fault == "dropped":
                    _break_connection(request)
            while (ahead := self._stalled_until - time.monotonic()) > 0:
                await asyncio.sleep(ahead)
            times.append(time.perf_counter_ns())
            await response.write(reply.line(chunk))
        if behaviour.fault != "no_last_object":
            await response.write(reply.last_lines())
        return response


_PATHS = ("/v1/chat/completions", "/v1/completions", "/api/chat", "/api/generate")


def _refusal(path: str, behaviour: Behaviour) -> web.Response:
    message = f"simulated {behaviour.status}"
    error = message if path.startswith("/api/") else {"message": message, "code": behaviour.code}
    headers = {"Retry-After": behaviour.retry_after} if behaviour.retry_after else {}
    return web.json_response({"error": error}, status=behaviour.status, headers=headers)


def _break_connection(request: web.Request) -> None:
    if request.transport:
        request.transport.abort()
    raise ConnectionResetError("the simulated server broke the connection")


async def _healthy(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def _version(_: web.Request) -> web.Response:
    return web.json_response({"version": "0.0-simulated"})


def main(arguments: Iterable[str] | None = None) -> None:
    """Serve at a port until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--gap-ms", type=float, default=0.0)
    parser.add_argument("--enable-lora", action="store_true")  # as vLLM takes these three
    parser.add_argument("--max-lora-rank", type=int)
    parser.add_argument("--lora-modules", nargs="*", default=[])
    options = parser.parse_args(None if arguments is None else list(arguments))
    behaviour = Behaviour(gap_s=options.gap_ms / 1000)
    if options.lora_modules and not options.enable_lora:
        parser.error("--lora-modules needs --enable-lora")
    loras = dict(module.split("=", 1) for module in options.lora_modules)
    server = SimulatedServer(
        port=options.port, model=options.model, loras=loras, otherwise=behaviour
    )
    asyncio.run(server.serve())


if __name__ == "__main__":
    main()
