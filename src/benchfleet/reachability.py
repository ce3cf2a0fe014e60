"""Whether a host of the network can be reached, known within about a second."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache

CONNECT_TIMEOUT_S = 1.2
HUB = "https://huggingface.co"


def unreachable_hub(environ: Mapping[str, str]) -> str:
    """The hub's host where no connection to it can be made; ``""`` where one can, or behind a
    proxy."""
    from urllib.parse import urlsplit  # takes longer than reading a campaign

    address = urlsplit(environ.get("HF_ENDPOINT") or HUB)
    if not address.hostname:
        return ""
    port = address.port or (80 if address.scheme == "http" else 443)
    return address.hostname if unreachable(address.hostname, port) else ""


@cache
def unreachable(host: str, port: int) -> bool:
    """Whether the host accepts no connection; asked once in a process. Never behind a proxy."""
    import socket
    import threading
    from urllib.request import getproxies

    if getproxies().keys() - {"no"}:  # which names the hosts without a proxy
        return False
    accepted = threading.Event()
    ended = threading.Event()

    def connect() -> None:
        with suppress(OSError):
            socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S).close()
            accepted.set()
        ended.set()

    # In a thread, since looking up a name may take longer than any timeout of a connection.
    threading.Thread(target=connect, daemon=True).start()
    ended.wait(CONNECT_TIMEOUT_S)
    return not accepted.is_set()
