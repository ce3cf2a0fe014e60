"""Sends one message through Apprise, in a process of its own: ``python -m …send``.

Standard input has ``{"addresses": […], "title": …, "body": …}``; without a title only the addresses
are checked. Standard output gets ``{"unknown": N, "failed": N, "reasons": […]}``. So no address is
an argument or in the environment of a process, and a service that hangs can be ended.
"""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Protocol

from benchfleet.environment import child_environment

SEND_TIMEOUT_S = 60.0
_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S = 10, 20


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """How many of the addresses are unknown to Apprise, and how many did not take the message."""

    unknown: int = 0
    failed: int = 0
    reasons: Sequence[str] = ()  # why, as far as known; they name no address


class Send(Protocol):
    """Sends a message to addresses; see `send`."""

    def __call__(
        self,
        addresses: Sequence[str],
        title: str,
        body: str,
        *,
        started: Callable[[Callable[[], None]], None],
    ) -> Delivery: ...


def send(
    addresses: Sequence[str],
    title: str,
    body: str,
    *,
    timeout: float = SEND_TIMEOUT_S,
    started: Callable[[Callable[[], None]], None] = lambda kill: None,
) -> Delivery:
    """Send a message and return how that went; after `timeout` seconds it has failed.

    `started` gets what ends that sooner, from any thread.
    """
    request = json.dumps({"addresses": [*addresses], "title": title, "body": body})
    failed = Delivery(failed=len(addresses))
    try:
        with subprocess.Popen(
            [sys.executable, "-m", __spec__.name if __spec__ else __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # of libraries, which may name addresses
            env=child_environment(),
            start_new_session=True,  # Ctrl-C is for the run
        ) as process:
            started(process.kill)
            try:
                answer, _ = process.communicate(request.encode(), timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                return replace(failed, reasons=[f"no answer in {timeout:.0f} s"])
            return Delivery(**json.loads(answer)) if process.returncode == 0 else failed
    except (OSError, ValueError, TypeError):
        return failed


def _main() -> None:
    signal.alarm(int(SEND_TIMEOUT_S))  # even if the run that started it is gone
    import apprise

    request = json.load(sys.stdin)
    services = []
    for address in request["addresses"]:
        mark = "&" if "?" in address else "?"
        limits = f"{mark}cto={_CONNECT_TIMEOUT_S}&rto={_READ_TIMEOUT_S}"
        services.append(apprise.Apprise.instantiate(address + limits))
    reasons = _Reasons()
    logging.getLogger("apprise").addHandler(reasons)
    known_services = [service for service in services if service is not None]
    failed = 0
    if request["title"]:
        for service in known_services:
            one = apprise.Apprise()
            one.add(service)
            failed += not one.notify(title=request["title"], body=request["body"])
    delivery = {"unknown": len(services) - len(known_services), "failed": failed}
    print(json.dumps({**delivery, "reasons": list(dict.fromkeys(reasons.seen))}))


class _Reasons(logging.Handler):
    """Why services took no message, by what Apprise logs. Its texts may name addresses, so of them
    only the status of an answer is kept, and that there was none."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if status := re.search(r"\berror=([1-5]\d\d)\b", text):
            code = int(status[1])
            names = {one.value: one.phrase for one in HTTPStatus}
            self.seen.append(f"HTTP {code} {names.get(code, '')}".strip())
        elif "connection error" in text.lower():
            self.seen.append("no connection")


if __name__ == "__main__":
    _main()
