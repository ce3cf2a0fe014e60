"""The table of traps and rules in docs/dashboard.md, as tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from benchfleet.dashboard.app import plain_application
from benchfleet.dashboard.campaigns import Campaigns
from benchfleet.dashboard.security import CONTENT_POLICY, READING_METHODS, allowed_hosts
from benchfleet.dashboard.stream import Streams
from benchfleet.dashboard.tokens import Tokens
from dashboards import KEY, NAME, ORIGIN, PORT, client_of, every_kind_of_cell


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaigns]:
    campaigns = every_kind_of_cell(tmp_path_factory.mktemp("campaign")).campaigns()
    yield campaigns
    campaigns.stop()


@pytest.fixture
def reader(campaigns: Campaigns) -> Iterator[TestClient]:
    """Somebody without a session."""
    with client_of(campaigns, stop=False) as client:
        yield client


@pytest.fixture
def owner(campaigns: Campaigns) -> Iterator[TestClient]:
    """Somebody with a session, on our own pages."""
    with client_of(campaigns, session=True, stop=False) as client:
        yield client


def writing_routes() -> list[tuple[str, str]]:
    """Each method of each route that is not for reading, on an address of the right form."""
    found: list[tuple[str, str]] = []
    routes: list[Any] = list(plain_application(Campaigns({}), Streams()).routes)
    while routes:
        route = routes.pop()
        routes += getattr(route, "routes", None) or getattr(
            getattr(route, "original_router", None), "routes", []
        )
        if isinstance(route, Route):
            methods = (route.methods or set()) - READING_METHODS
            path = route.path.replace("{slug}", NAME)
            found += [(method, path) for method in sorted(methods)]
    return found


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:9", "127.0.0.1:8050.evil.example", ""]
)
def test_an_unknown_host_is_refused(reader: TestClient, host: str) -> None:
    for path in ("/", "/api/status", "/static/app.css", "/nothing"):
        assert reader.get(path, headers={"Host": host}).status_code == 400


def test_known_hosts_are_exact() -> None:
    assert allowed_hosts("127.0.0.1", 8050, ["bench.lab"]) == [
        "127.0.0.1:8050",
        "[::1]:8050",
        "localhost:8050",
        "bench.lab",
        "bench.lab:8050",
    ]
    assert allowed_hosts("0.0.0.0", 8050, ["bench.lab"]) == [  # noqa: S104
        "bench.lab",
        "bench.lab:8050",
    ]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "ANYTHING"])
@pytest.mark.parametrize("path", ["/", f"/c/{NAME}/", f"/c/{NAME}/orders", "/api/orders", "/no"])
def test_other_methods_need_the_same_origin_and_a_session(
    owner: TestClient, reader: TestClient, method: str, path: str
) -> None:
    foreign = {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}
    assert owner.request(method, path, headers=foreign).status_code == 403
    assert owner.request(method, path, headers={"Origin": "null"}).status_code == 403
    assert reader.request(method, path).status_code == 403
    assert reader.request(method, path, headers={"Origin": ORIGIN}).status_code == 403


def test_every_route_that_writes_is_behind_the_guard(owner: TestClient, reader: TestClient) -> None:
    for method, path in writing_routes():
        foreign = {"Origin": "http://evil.example"}
        assert owner.request(method, path, headers=foreign).status_code == 403
        assert reader.request(method, path, headers={"Origin": ORIGIN}).status_code == 403
        assert method == "POST"


def test_a_bearer_token_needs_no_origin(reader: TestClient) -> None:
    token = Tokens(KEY, PORT).session()
    answer = reader.post("/no", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 404


def test_no_answer_allows_other_origins(owner: TestClient) -> None:
    for path in ("/", "/api/status", f"/c/{NAME}/", "/static/app.css"):
        answer = owner.get(path, headers={"Origin": "http://evil.example"})
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert (
        owner.options("/api/status", headers={"Origin": "http://evil.example"}).status_code == 405
    )


def test_a_link_is_spent_once_and_leaves_the_address(reader: TestClient) -> None:
    link = f"/c/{NAME}/matrix?state=failed&token={Tokens(KEY, PORT).link()}"
    answer = reader.get(link)
    assert answer.status_code == 303
    assert answer.headers["location"] == "./matrix?state=failed"
    cookie = answer.headers["set-cookie"].lower()
    assert f"benchfleet-{PORT}=" in cookie
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "read-only" not in reader.get(f"/c/{NAME}/").text
    again = reader.get(link)
    assert again.status_code == 403
    assert "benchfleet dashboard --link" in again.text


def test_without_a_session_pages_are_read_only(reader: TestClient, owner: TestClient) -> None:
    page = reader.get(f"/c/{NAME}/failures")
    assert page.status_code == 200
    assert "read-only" in page.text
    assert "verb=retry" not in page.text
    assert "verb=retry" in owner.get(f"/c/{NAME}/failures").text


def test_a_dashboard_for_others_shows_nothing_without_the_link(campaigns: Campaigns) -> None:
    with client_of(campaigns, private=True, stop=False) as client:
        for path in ("/", f"/c/{NAME}/", "/api/status", "/api/stream", "/api/openapi.json"):
            assert client.get(path).status_code == 401
        client.get(f"/?token={Tokens(KEY, PORT).link()}")
        assert client.get(f"/c/{NAME}/").status_code == 200


def test_every_answer_has_the_policy(reader: TestClient) -> None:
    for path in ("/", f"/c/{NAME}/", "/api/status", "/static/live.js", "/nothing", "/c/no/"):
        headers = reader.get(path).headers
        assert headers["content-security-policy"] == CONTENT_POLICY
        assert headers["referrer-policy"] == "same-origin"
        assert headers["x-content-type-options"] == "nosniff"
    assert reader.get("/", headers={"Host": "evil"}).headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static/VENDOR.toml",
        "/static/app.css%00.js",
        f"/c/{NAME}/cell/..%2f..%2fledger.db",
        f"/c/{NAME}/cell/..%2f..%2fledger.db/log.txt",
        f"/c/..%2f{NAME}/",
        "/docs",
        "/redoc",
    ],
)
def test_no_path_of_a_client_reaches_a_file(reader: TestClient, path: str) -> None:
    assert reader.get(path).status_code == 404


def test_a_linked_log_is_not_followed(tmp_path: Path) -> None:
    campaign = every_kind_of_cell(tmp_path)
    (log,) = campaign.layout.attempts.glob("*/*/log.txt")
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    log.unlink()
    log.symlink_to(secret)
    with client_of(campaign.campaigns()) as client:
        failed = client.get("/api/cells?state=failed").json()["cells"][0]["id"]
        for path in ("", "?tab=log", "/log", "/log.txt"):
            assert "the secret" not in client.get(f"/c/{NAME}/cell/{failed}{path}").text


def test_bodies_and_pages_are_bounded(owner: TestClient) -> None:
    assert owner.post(f"/c/{NAME}/orders", content=b"x" * 70_000).status_code == 413
    assert owner.post(f"/c/{NAME}/orders", content=iter([b"x"])).status_code == 413
    assert owner.get("/api/cells?limit=501").status_code == 422
    assert owner.get("/api/cells?q=" + "x" * 301).status_code == 422


def test_a_head_request_is_answered_as_the_page(owner: TestClient) -> None:
    for path in (f"/c/{NAME}/", "/api/status", "/static/app.css"):
        assert owner.head(path).status_code == 200
    assert owner.head("/api/stream").status_code == 405  # it has no end


def test_a_spent_link_names_the_port_of_the_next_one(owner: TestClient) -> None:
    link = f"/?token={Tokens(KEY, PORT).link()}"
    assert owner.get(link).status_code == 303
    assert f"benchfleet dashboard --link --port {PORT}\n" in owner.get(link).text
