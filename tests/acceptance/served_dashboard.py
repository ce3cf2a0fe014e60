"""A dashboard that a test starts as a user does, and orders that it takes without a browser."""

from __future__ import annotations

import json
import subprocess
from http.cookiejar import CookieJar
from typing import Any
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener, urlopen

from .conftest import User
from .hurried import start_with


def served(
    user: User, port: int = 0, *words: str, settings: str = ""
) -> tuple[subprocess.Popen[str], str, str]:
    """A dashboard of study.yaml that has read its cells; its address and one-time link.
    `settings` are lines of Python that it begins with."""
    words = ("dashboard", "study.yaml", *words, "--port", str(port), "--json")
    process = start_with(user, settings, *words)
    assert process.stdout is not None
    text = ""
    while not text.rstrip().endswith("}"):
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        text += line
    values = json.loads(text)
    status = f"{values['address']}api/status?campaign=study"
    urlopen(status, timeout=240).close()  # noqa: S310 - it is ours
    return process, values["address"], values["link"]


class Person:
    """Somebody who opened the one-time link, and asks and orders by the API."""

    def __init__(self, address: str, link: str) -> None:
        self._address = address
        self._opener: OpenerDirector = build_opener(HTTPCookieProcessor(CookieJar()))
        self._opener.open(link, timeout=60).close()

    def ask(self, path: str) -> Any:
        with self._opener.open(f"{self._address}{path}", timeout=60) as answer:
            return json.load(answer)

    def order(self, verb: str, key: str, **ids: str) -> Any:
        headers = {"Origin": self._address.rstrip("/"), "Content-Type": "application/json"}
        body = json.dumps({"verb": verb, "key": key, **ids}).encode()
        address = f"{self._address}api/orders"
        request = Request(address, body, headers, method="POST")  # noqa: S310 - it is ours
        with self._opener.open(request, timeout=60) as answer:
            return json.load(answer)
