"""``benchfleet dashboard`` up to its server: what it refuses, the links it prints, its export."""

from __future__ import annotations

import json
import socket
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from benchfleet.cli.main import main
from benchfleet.cli.verbs import dashboard
from benchfleet.dashboard import campaigns, server
from benchfleet.dashboard import export as site
from benchfleet.dashboard.campaigns import Campaigns, ShownCampaign
from benchfleet.dashboard.export import Exported
from benchfleet.dashboard.tokens import Tokens, own_key
from dashboards import NAME, every_kind_of_cell
from watchers import free_port


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder; the dashboard's key is kept in another."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "work"


Printed = Callable[..., str]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """What the verb prints: to stdout, or where it ends with a code to stderr."""

    def run(*words: str, code: int = 0) -> str:
        assert main(["dashboard", *words]) == code
        output = capsys.readouterr()
        return output.err if code else output.out

    return run


def test_what_cannot_be_served_is_refused_with_the_option(printed: Printed) -> None:
    assert "70000 is not a port: use 0 to 65535" in printed("--port", "70000", code=2)
    refused = printed("--host", "0.0.0.0", code=2)  # noqa: S104 - it is refused
    assert "add --trusted-host NAME" in refused
    assert "give its file, or --ledger" in printed("--port", "0", code=2)


def test_without_its_packages_it_names_the_extra(
    printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "find_spec", lambda name: None)
    refused = printed("--link", code=2)
    assert "the dashboard needs fastapi, jinja2, uvicorn, multipart" in refused
    assert "pip install 'benchfleet[dashboard]'" in refused


@pytest.fixture
def port() -> Iterator[int]:
    """A port that somebody listens at."""
    with closing(server.listen("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("trusted", "address"),
    [
        ([], "http://127.0.0.1:PORT/"),
        (["lab.example"], "http://lab.example:PORT/"),
        (["lab.example:80", "b"], "http://lab.example:80/"),
        (["2001:db8::1"], "http://[2001:db8::1]:PORT/"),
        (["[2001:db8::1]"], "http://[2001:db8::1]:PORT/"),
        (["[2001:db8::1]:80"], "http://[2001:db8::1]:80/"),
    ],
)
def test_a_link_is_for_the_name_and_port_that_browsers_use(
    printed: Printed, port: int, trusted: list[str], address: str
) -> None:
    words = [word for name in trusted for word in ("--trusted-host", name)]
    values = json.loads(printed("--link", "--json", "--port", str(port), *words))
    assert values["address"] == address.replace("PORT", str(port))
    begin, _, token = values["link"].partition("?token=")
    assert begin == values["address"]
    assert Tokens(own_key({"XDG_CACHE_HOME": "../cache"}), port).spend(token)


def test_a_link_of_an_ipv6_address_has_brackets(printed: Printed) -> None:
    with closing(server.listen("::1", 0)) as listener:
        port = listener.getsockname()[1]
        values = json.loads(printed("--link", "--json", "--host", "::1", "--port", str(port)))
    assert values["address"] == f"http://[::1]:{port}/"


def test_a_link_to_every_address_asks_this_machine(printed: Printed, port: int) -> None:
    every = ("--host", "0.0.0.0", "--trusted-host", "lab.example")  # noqa: S104 - it only links
    assert f"http://lab.example:{port}/" in printed("--link", "--port", str(port), *every)


@pytest.mark.parametrize("words", [(), ("--host", "0.0.0.0", "--trusted-host", "a")])  # noqa: S104
def test_no_link_is_printed_where_nothing_listens(printed: Printed, words: tuple[str, ...]) -> None:
    port = free_port()
    refused = printed("--link", "--port", str(port), *words, code=2)
    assert f"nothing listens at 127.0.0.1:{port}" in refused
    assert "give the --host and --port" in refused
    assert "token" not in refused


def test_a_link_is_printed_for_people_and_opened(
    printed: Printed, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    text = printed("--link", "--open", "--port", str(port))
    assert f"dashboard: http://127.0.0.1:{port}/ (read-only)" in text
    (link,) = opened
    assert f"open this link once, within 15 minutes: {link}" in text


def test_a_key_that_cannot_be_kept_is_an_error(
    printed: Printed, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("file").absolute()))
    assert "no key for the dashboard: " in printed("--link", "--port", str(port), code=2)


def test_it_serves_at_the_port_that_it_prints(
    printed: Printed, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[tuple[str, int]] = []
    seen: list[int] = []

    def serve(app: ASGIApp, listener: socket.socket, *, stop: Callable[[], None]) -> None:
        host, port = listener.getsockname()
        served.append((host, port))
        listener.close()
        client = TestClient(app)
        for name in ("127.0.0.1", "[2001:db8::1]", "elsewhere"):
            answer = client.get("/api/status", headers={"Host": f"{name}:{port}"})
            seen.append(answer.status_code)
        stop()

    monkeypatch.setattr(server, "serve", serve)
    url = every_kind_of_cell(folder).url
    words = ["--ledger", url, "--port", "0", "--trusted-host", "2001:db8::1", "--json"]
    output = printed(*words)
    ((_, port),) = served
    assert json.loads(output)["address"] == f"http://[2001:db8::1]:{port}/"
    assert seen == [200, 200, 400]
    with server.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port} (Address already in use)" in printed(
            "--ledger", url, "--port", str(port), code=2
        )


def test_an_export_says_what_it_wrote(
    printed: Printed, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported: list[str] = []

    def export(campaign: ShownCampaign, target: Path) -> Exported:
        exported.append(campaign.study.campaign.name)
        return Exported(folder=target, pages=9, cell_pages=4, cells=5, size=60_000_000)

    monkeypatch.setattr(site, "export", export)
    words = ["--ledger", every_kind_of_cell(folder).url, "--export", "site"]
    text = printed(*words)
    assert text.startswith("site/index.html: 9 pages, and a page for 4 of 5 cells; 60")
    assert "some mail and web servers refuse a site of this size" in text
    assert json.loads(printed(*words, "--json")) == {
        "pages": 9,
        "cell_pages": 4,
        "bytes": 60_000_000,
        "index": "site/index.html",
    }
    assert exported == [NAME, NAME]


def test_one_of_several_campaigns_is_named_to_be_exported(
    printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def several(*_: object) -> Campaigns:
        return Campaigns(dict.fromkeys(["one", "two"], lambda: pytest.fail("opened")))

    monkeypatch.setattr(campaigns, "campaigns_of_ledger", several)
    refused = printed("--ledger", "git:shared", "--export", "site", code=2)
    assert "name one campaign to export: one, two" in refused
