"""Messages through the real Apprise, and why a service took none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from benchfleet.notifications.send import Delivery, send
from packages import require

require("apprise")


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_service_that_is_away_is_named_by_no_address(unused_port: int) -> None:
    addresses = [f"json://127.0.0.1:{unused_port}/my-secret", "nothing://my-secret"]
    delivery = send(addresses, "title", "body")
    assert delivery == Delivery(unknown=1, failed=1, reasons=["no connection"])


def test_a_service_that_hangs_has_failed_after_the_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        address = f"json://127.0.0.1:{hanging.getsockname()[1]}/"
        delivery = send([address], "title", "body", timeout=1.0)
    assert delivery == Delivery(failed=1, reasons=["no answer in 1 s"], unanswered=True)


def test_a_message_that_is_ended_while_a_service_hangs_was_perhaps_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:

        def end_it(kill: Callable[[], None]) -> None:
            def wait_and_kill() -> None:
                with hanging.accept()[0]:
                    kill()

            threading.Thread(target=wait_and_kill).start()

        address = f"json://127.0.0.1:{hanging.getsockname()[1]}/"
        delivery = send([address], "title", "body", started=end_it)
    assert delivery == Delivery(failed=1, reasons=["no answer"], unanswered=True)


def test_a_service_that_hangs_up_gave_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)

        thread = threading.Thread(target=hang_up)
        thread.start()
        delivery = send([f"json://127.0.0.1:{server.getsockname()[1]}/"], "title", "body")
        thread.join()
    assert delivery == Delivery(failed=1, reasons=["no answer"], unanswered=True)
