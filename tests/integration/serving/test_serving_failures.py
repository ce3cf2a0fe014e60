"""Servers that fail during the serving benchmark, and what the next attempt measures again."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchfleet.benchmarks.serving import point
from benchfleet.benchmarks.serving.benchmark import Serving
from benchfleet.errors import CellFailure
from benchfleet.testing.simulated_server import Behaviour, SimulatedServer

from .sessions import QUICK, SEARCH, session_of


def test_a_server_that_is_gone_ends_the_cell_by_name(tmp_path: Path) -> None:
    server = SimulatedServer(otherwise=Behaviour(gap_s=0.01))
    with server, session_of(server, tmp_path) as session:
        timer = threading.Timer(1.5, lambda: server.__exit__())
        timer.start()
        with pytest.raises(CellFailure, match="does not answer any more") as caught:
            Serving({**QUICK, "duration": "60s"}).run(session)
        timer.join()
        server.__enter__()
    assert caught.value.kind == "server_unavailable"
    assert session.samples
    assert session.checkpoints[-1]["total_requests"] == len(session.samples)


def test_a_server_that_hangs_ends_the_cell_after_two_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SimulatedServer(otherwise=Behaviour(first_s=60.0)) as server:
        server.script.extend([Behaviour()] * 4)  # two as it is loaded, two prompts
        with session_of(server, tmp_path) as session:
            monkeypatch.setattr(type(session.adapter), "is_healthy", lambda self: False)
            monkeypatch.setattr(point, "HEALTH_EVERY_S", 0.2)
            monkeypatch.setattr(
                point.PointRunner.__init__,
                "__kwdefaults__",
                {**(point.PointRunner.__init__.__kwdefaults__ or {}), "health_every_s": 0.2},
            )
            with pytest.raises(CellFailure) as caught:
                Serving({**QUICK, "duration": "60s"}).run(session)
    assert caught.value.kind == "server_unavailable"


@pytest.mark.parametrize(
    ("behaviour", "kind", "message"),
    [
        (Behaviour(status=500), "server_unavailable", r"40 http_500.*the first: .*HTTP 500: "),
        (Behaviour(status=401), "wrong_key", "HTTP 401"),
        (Behaviour(status=429, code="insufficient_quota"), "rate_limited", "account is spent"),
        (Behaviour(fault="error_in_stream"), "server_unavailable", "40 error_in_stream"),
        (Behaviour(fault="no_last_object"), "bad_request", "is it a server of this protocol?"),
    ],
)
def test_a_point_without_an_answer_fails_with_the_first_error_and_starts_again(
    tmp_path: Path, behaviour: Behaviour, kind: str, message: str
) -> None:
    params = {**QUICK, "concurrency": 2, "requests": 40, "slo": {"ttft": "1s"}}
    with SimulatedServer() as server:
        with session_of(server, tmp_path) as first:
            server.respond = failing_after(2, behaviour)
            with pytest.raises(CellFailure, match=message) as caught:
                Serving(params).run(first)
        assert (caught.value.stage, caught.value.kind) == ("benchmark", kind)
        assert "40 of 40 requests failed" in str(caught.value)
        server.respond = None
        with session_of(server, tmp_path, recorded=first.kept) as session:
            score = Serving(params).run(session)
    assert score.summary["successful_requests"] == 40
    assert score.overall > 0


@pytest.mark.parametrize(
    ("params", "status", "kind"),
    [
        (QUICK, 401, "wrong_key"),
        (QUICK, 429, "rate_limited"),
        (SEARCH, 401, "wrong_key"),
        (SEARCH, 429, None),
    ],
)
def test_a_server_that_refuses_all_requests_is_not_asked_until_the_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    params: Mapping[str, Any],
    status: int,
    kind: str | None,
) -> None:
    """Of a search an overload is a result: its points miss."""
    monkeypatch.setattr(point, "MAX_REFUSED_S", 1.0)
    is_search = params is SEARCH
    params = {**params, "duration": "10s" if is_search else "10m", "slo": {"ttft": "1s"}}
    server = SimulatedServer(otherwise=Behaviour(gap_s=0.001))
    with server, session_of(server, tmp_path) as session:
        server.respond = failing_after(20, Behaviour(status=status))
        if kind is None:
            assert Serving(params).run(session).overall < 64
            return
        with pytest.raises(CellFailure, match=f"http_{status}.*so no more was sent") as caught:
            Serving(params).run(session)
    assert caught.value.kind == kind
    assert session.samples


def failing_after(count: int, behaviour: Behaviour) -> Callable[[dict[str, Any]], Behaviour | None]:
    """Streams after so many behave so."""
    seen = itertools.count()
    return lambda body: behaviour if body["stream"] and next(seen) >= count else None


def test_a_point_whose_server_broke_after_the_warm_up_is_no_result(tmp_path: Path) -> None:
    params = {**QUICK, "requests": 60, "slo": {"ttft": "1s"}}
    with SimulatedServer() as server, session_of(server, tmp_path) as session:
        server.respond = failing_after(3, Behaviour(status=500))
        with pytest.raises(CellFailure, match="59 of 60 requests failed") as caught:
            Serving(params).run(session)
    assert caught.value.kind == "server_unavailable"
    assert caught.value.is_retryable


def test_a_search_without_an_answer_fails_and_is_measured_again(tmp_path: Path) -> None:
    params = {**SEARCH, "from": 1, "to": 2}
    with SimulatedServer(otherwise=Behaviour(gap_s=0.001)) as server:
        with session_of(server, tmp_path) as first:
            server.respond = failing_after(2, Behaviour(status=503))
            with pytest.raises(CellFailure, match="none of the steady window was answered"):
                Serving(params).run(first)
        server.respond = None
        with session_of(server, tmp_path, recorded=first.kept) as session:
            again = Serving(params).run(session)
        with session_of(server, tmp_path, recorded=[*first.kept, *session.kept]) as session:
            assert Serving(params).run(session).summary["conclusion"] == "at least 2"
    assert again.summary["conclusion"] == "at least 2"
    assert not session.kept
