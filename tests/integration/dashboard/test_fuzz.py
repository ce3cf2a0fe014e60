"""The API answers whatever its description allows, and refuses the rest, without an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from benchfleet.dashboard.app import application
from benchfleet.dashboard.security import allowed_hosts
from benchfleet.dashboard.server import listen, serving
from benchfleet.dashboard.stream import Streams
from benchfleet.dashboard.tokens import Tokens
from dashboards import KEY, every_kind_of_cell

EXAMPLES = 12  # of each operation
OPERATIONS = 6
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a dashboard."""
    campaigns = every_kind_of_cell(tmp_path_factory.mktemp("campaign")).campaigns()
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    streams = Streams()
    hosts = allowed_hosts("127.0.0.1", port, ())
    app = application(campaigns, Tokens(KEY, port), streams, hosts=hosts, private=False)
    with serving(app, listener, stop=streams.stop):
        yield f"http://127.0.0.1:{port}"
    campaigns.stop()


def test_the_api_keeps_to_its_description(server: str) -> None:
    port = int(server.rpartition(":")[2])
    headers = {"Authorization": f"Bearer {Tokens(KEY, port).session()}"}
    schema = schemathesis.openapi.from_url(f"{server}/api/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) >= OPERATIONS
    for operation in operations:

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(
            st.one_of(
                operation.as_strategy(generation_mode=GenerationMode.POSITIVE),  # type: ignore[arg-type]
                operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),  # type: ignore[arg-type]
            )
        )
        def ask(case: schemathesis.Case[Any]) -> None:
            response = case.call(headers=headers, timeout=30)
            case.validate_response(response, checks=CHECKS)

        ask()
