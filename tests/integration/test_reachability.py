"""Whether a host can be reached, behind a proxy or not."""

from __future__ import annotations

import pytest

from benchfleet.reachability import unreachable
from watchers import free_port

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("name", "value", "is_unreachable"),
    [
        ("no_proxy", "localhost", True),  # names hosts without a proxy, and is none
        ("https_proxy", "http://127.0.0.1:9", False),  # it may lead there
    ],
)
def test_a_host_that_refuses_is_unreachable_unless_a_proxy_leads_there(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, is_unreachable: bool
) -> None:
    monkeypatch.setenv(name, value)
    assert unreachable("127.0.0.1", free_port()) is is_unreachable
