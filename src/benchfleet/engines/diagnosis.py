"""Why a host cannot be used, from what the OpenSSH client and its shell say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from benchfleet.engines.openssh import LOST


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What is wrong, and what to do about it."""

    stage: str  # ssh, name, connect, jump, host key, permission, python, benchfleet, answer
    message: str
    hopeless: bool  # until somebody fixes something


# What ssh says when it ends with its own code, as OpenSSH 7 to 10 word it: the first that is found
# is the cause of those further down.
_OF_SSH = (
    (
        r"bad owner or permissions|bad configuration option|arguments at end of line",
        "ssh",
        "fix the ssh configuration of this machine",
        True,
    ),
    (
        r"permissions \d+ for .* are too open",
        "permission",
        "remove the rights of other users (chmod 600)",
        True,
    ),
    (r"could not resolve hostname", "name", "correct its address", True),
    (r"host key for .* has changed|identification has changed", "host key", "", True),
    (r"host key verification failed", "host key", "connect to it once by hand", True),
    (r"too many authentication failures", "permission", "name its key under identity", True),
    (
        r"permission denied",
        "permission",
        "install your key there (ssh-copy-id), or name it under identity",
        True,
    ),
    (r"connection refused", "connect", "is sshd running there, on this port?", False),
    (
        r"timed out|not responding|no route to host|host is down|no answer within",
        "connect",
        "is it switched on, and reachable from here?",
        False,
    ),
    (r"network is unreachable", "connect", "is this machine's network up?", False),
    (r"no matching .* found", "connect", "its sshd is too old or too new for this ssh", True),
    (r"session open refused|mux_client", "connect", "raise MaxSessions in its sshd_config", False),
    (
        r"kex_exchange_identification|invalid format",
        "connect",
        "is what listens there an sshd, and not overloaded (MaxStartups)?",
        False,
    ),
)
_OFFENDING = re.compile(r"offending \S+ key in (.+):(\d+)", re.IGNORECASE)


def diagnosis(code: int, stderr: str, *, jump: str = "", python: str = "") -> Diagnosis:
    """The reason for an exit code other than 0, from ssh's standard error; `jump` names the jump
    hosts and `python` the interpreter, as the inventory does."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else f"exit code {code}"
    if code == LOST or code < 0:
        return _of_ssh(stderr, lines, last, jump)
    if code in (126, 127) or "no such file or directory" in stderr.lower():
        return Diagnosis(
            stage="python", message=_lacks("Python not found", last, python), hopeless=True
        )
    if re.search(r"No module named '?benchfleet", stderr):
        message = _lacks("its Python has no benchfleet", last, python)
        return Diagnosis(stage="benchfleet", message=message, hopeless=True)
    return Diagnosis(stage="answer", message=f"it does not report its facts: {last}", hopeless=True)


def _lacks(what: str, last: str, python: str) -> str:
    """What it lacks, and what to do: `hosts bootstrap` leaves an interpreter that the inventory
    names as it is."""
    if python:
        where = f"{what}: {python} ({last})"
        return f"{where}; fix it, or remove 'python' and run `benchfleet hosts bootstrap`"
    return f"{what} ({last}); run `benchfleet hosts bootstrap`"


def _of_ssh(stderr: str, lines: Sequence[str], last: str, jump: str) -> Diagnosis:
    for pattern, stage, remedy, hopeless in _OF_SSH:
        if match := re.search(pattern, stderr, re.IGNORECASE):
            line = next((line for line in lines if match[0] in line), match[0]).strip("@ ")
            if _was_of_a_jump_host(line, lines, jump):
                message = f"the way through its jump host is closed: {line}; {remedy}"
                return Diagnosis(stage="jump", message=message, hopeless=hopeless)
            message = f"{line}; {remedy}" if remedy else _key_changed(stderr)
            return Diagnosis(stage=stage, message=message, hopeless=hopeless)
    return Diagnosis(stage="connect", message=f"the connection failed: {last}", hopeless=False)


def _was_of_a_jump_host(line: str, lines: Sequence[str], jump: str) -> bool:
    """Whether another ssh said it: it names a jump host, or the host's own connection was closed
    after that, of which ssh does not always come to speak."""
    hops = [hop.rpartition("@")[2].partition(":")[0] for hop in jump.split(",") if hop]
    if any(re.search(rf"(?<![\w.-]){re.escape(hop)}(?![\w.-])", line) for hop in hops):
        return True
    after = lines[lines.index(line) + 1 :] if line in lines else []
    return any("UNKNOWN port" in one or "kex_exchange_ident" in one for one in after)


def _key_changed(stderr: str) -> str:
    message = "its host key is not the one that was seen before; if it was reinstalled, take "
    if match := _OFFENDING.search(stderr):
        return f"{message}line {match[2]} out of {match[1]}"
    return f"{message}the old key out of the known_hosts file that ssh names"
