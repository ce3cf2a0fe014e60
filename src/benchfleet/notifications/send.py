"""Sends one message through Apprise, in a process of its own: ``python -m …send``.

Standard input has ``{"addresses": […], "title": …, "body": …}``; without a title only the addresses
are checked. Standard output gets the fields of `Delivery`. So no address is an argument or in the
environment of a process, and a service that hangs can be ended.
"""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from typing import Protocol

from benchfleet.environment import child_environment

SEND_TIMEOUT_S = 60.0
_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S = 10, 20
_NO_CONNECTION, _NO_ANSWER = "no connection", "no answer"
# Apprise calls it a connection error too if a service was reached and did not answer.
_UNANSWERED = re.compile("^Socket Exception.*(Read timed out|Connection aborted)")


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """How many of the addresses are unknown to Apprise, and how many did not take the message."""

    unknown: int = 0
    failed: int = 0
    reasons: Sequence[str] = ()  # why, as far as known; they name no address
    unanswered: bool = False  # a service may have taken the message, and did not say so


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
                reason = f"{_NO_ANSWER} in {timeout:.0f} s"
                return replace(failed, reasons=[reason], unanswered=True)
            if process.returncode < 0:  # it was ended while it sent
                return replace(failed, reasons=[_NO_ANSWER], unanswered=True)
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
    logger = logging.getLogger("apprise")
    logger.addHandler(reasons)
    logger.setLevel(logging.DEBUG)
    known_services = [service for service in services if service is not None]
    failed = 0
    if request["title"]:
        for service in known_services:
            one = apprise.Apprise()
            one.add(service)
            failed += not one.notify(title=request["title"], body=request["body"])
    delivery = Delivery(
        unknown=len(services) - len(known_services),
        failed=failed,
        reasons=list(dict.fromkeys(reasons.seen)),
        unanswered=_NO_ANSWER in reasons.seen,
    )
    print(json.dumps(asdict(delivery)))


class _Reasons(logging.Handler):
    """Why services took no message, by what Apprise logs. Its texts may name addresses, so of them
    only the status of an answer is kept, and that there was none or no connection."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno < logging.WARNING:  # the details of what was logged last
            if self.seen[-1:] == [_NO_CONNECTION] and _UNANSWERED.search(text):
                self.seen[-1] = _NO_ANSWER
        elif status := re.search(r"\berror=([1-5]\d\d)\b", text):
            code = int(status[1])
            names = {one.value: one.phrase for one in HTTPStatus}
            self.seen.append(f"HTTP {code} {names.get(code, '')}".strip())
        elif "connection error" in text.lower():
            self.seen.append(_NO_CONNECTION)


if __name__ == "__main__":
    _main()
