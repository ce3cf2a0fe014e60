"""Messages that ssh and shells really print become a stage and a remedy."""

from __future__ import annotations

import pytest

from benchfleet.engines.diagnosis import diagnosis
from benchfleet.engines.openssh import LOST

CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\r
Offending ED25519 key in /study/.benchfleet/known_hosts:3\r
  remove with:\r
  ssh-keygen -f "/study/.benchfleet/known_hosts" -R "[127.0.0.1]:2222"\r
Host key for [127.0.0.1]:2222 has changed and you have requested strict checking.\r
Host key verification failed.\r
"""
OPEN_KEY = """\
@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\r
Permissions 0644 for '/home/me/key' are too open.\r
Load key "/home/me/key": bad permissions\r
me@lab1: Permission denied (publickey).\r
"""


@pytest.mark.parametrize(
    ("output", "stage", "hopeless"),
    [
        ("ssh: Could not resolve hostname lab9: Name or service not known", "name", True),
        ("ssh: connect to host lab1 port 1: Connection refused", "connect", False),
        ("ssh: connect to host lab1 port 22: Connection timed out", "connect", False),
        ("ssh: connect to host lab1 port 22: No route to host", "connect", False),
        ("ssh: connect to host 10.9.9.9 port 22: Network is unreachable", "connect", False),
        ("Connection timed out during banner exchange", "connect", False),
        ("Timeout, server lab1 not responding.", "connect", False),
        ("kex_exchange_identification: Connection closed by remote host", "connect", False),
        ("Connection to 127.0.0.1 closed by remote host.", "connect", False),
        ("me@127.0.0.1: Permission denied (publickey).", "permission", True),
        (
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures\r\n"
            "Disconnected from 10.0.0.1 port 22",
            "permission",
            True,
        ),
        (OPEN_KEY, "permission", True),
        (CHANGED, "host key", True),
        ("Host key verification failed.", "host key", True),
        ("Bad owner or permissions on /home/me/.ssh/config", "ssh", True),
        (
            "command-line line 0: keyword controlpath extra arguments at end of line",
            "ssh",
            True,
        ),
        ("no answer within 120 s", "connect", False),
        ("", "connect", False),
        ("something new", "connect", False),
    ],
)
def test_ssh_that_came_to_nothing_names_the_stage(output: str, stage: str, hopeless: bool) -> None:
    found = diagnosis(LOST, output)
    assert (found.stage, found.hopeless) == (stage, hopeless)
    last = output.splitlines()[-1] if output else "255"
    assert found.stage != "connect" or last in found.message


def test_a_changed_host_key_says_which_line_to_take_out_of_which_file() -> None:
    assert diagnosis(LOST, CHANGED).message.endswith(
        "take line 3 out of /study/.benchfleet/known_hosts"
    )


def test_the_cause_is_shown_rather_than_what_followed() -> None:
    assert diagnosis(LOST, OPEN_KEY).message.startswith("Permissions 0644 for '/home/me/key'")


@pytest.mark.parametrize(
    "output",
    [
        "ssh: connect to host gate port 22: Connection refused",
        "ssh: Could not resolve hostname gate: Name or service not known",
        "me@gate: Permission denied (publickey).",
    ],
)
def test_the_output_of_a_jump_host_is_reported_as_its_own(output: str) -> None:
    after = "kex_exchange_identification: Connection closed by remote host"
    found = diagnosis(LOST, f"{output}\r\n{after}\r\n")
    assert found.stage == "jump"
    assert output in found.message
    for jump in ("gate", "me@gate:22", "first.lab,me@gate"):  # the host's own ssh may say nothing
        assert diagnosis(LOST, f"{output}\r\n", jump=jump) == found
    assert diagnosis(LOST, f"{output}\r\n", jump="gate.lab").stage != "jump"


@pytest.mark.parametrize(
    ("code", "output", "stage"),
    [
        (127, "bash: line 1: exec: /x/python: not found", "python"),
        (126, "sh: 1: exec: /x/python: Permission denied", "python"),
        (1, "/usr/bin/python3: No module named benchfleet", "benchfleet"),
        (1, "ModuleNotFoundError: No module named 'benchfleet'", "benchfleet"),
        (1, "ModuleNotFoundError: No module named 'psutil'", "answer"),
    ],
)
def test_a_host_that_was_reached_says_what_it_lacks(code: int, output: str, stage: str) -> None:
    assert diagnosis(code, output).stage == stage


@pytest.mark.parametrize(
    ("code", "output", "what"),
    [
        (127, "bash: line 1: exec: /x/python: not found", "Python not found"),
        (1, "/x/python: No module named benchfleet", "its Python has no benchfleet"),
    ],
)
def test_an_interpreter_of_the_inventory_is_named_and_not_to_be_bootstrapped(
    code: int, output: str, what: str
) -> None:
    assert diagnosis(code, output, python="/x/python").message == (
        f"{what}: /x/python ({output}); fix it, or remove 'python' and run "
        "`benchfleet hosts bootstrap`"
    )
    assert diagnosis(code, output).message == f"{what} ({output}); run `benchfleet hosts bootstrap`"
