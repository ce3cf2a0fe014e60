"""Runs the application on a socket until it is interrupted; ends within seconds, streams or not."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from benchfleet.errors import BenchfleetError

SHUTDOWN_TIMEOUT_S = 1


class _Server(uvicorn.Server):
    """Ends open streams first: uvicorn would wait for them."""

    def __init__(self, config: uvicorn.Config, stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._stop()
        super().handle_exit(sig, frame)


def listen(host: str, port: int) -> socket.socket:
    """The socket of the server; port 0 takes a free one. Raises BenchfleetError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise BenchfleetError(
            f"cannot listen on {host}:{port} ({error.strerror}); name another port with --port"
        ) from error
    listener.listen(128)
    return listener


def serve(app: ASGIApp, listener: socket.socket, *, stop: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; `stop` ends what is open."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # addresses can hold a one-time token
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
        lifespan="off",
    )
    with contextlib.suppress(KeyboardInterrupt):
        _Server(config, stop).run(sockets=[listener])


@contextlib.contextmanager
def serving(app: ASGIApp, listener: socket.socket, *, stop: Callable[[], None]) -> Iterator[None]:
    """Serve in a thread while the block runs, for tests and measurements."""
    config = uvicorn.Config(
        app, log_config=None, access_log=False, timeout_graceful_shutdown=1, lifespan="off"
    )
    server = _Server(config, stop)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.handle_exit(signal.SIGTERM, None)
        thread.join(10)
