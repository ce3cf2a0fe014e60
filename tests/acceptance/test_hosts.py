"""``benchfleet hosts`` against a real sshd: checks, and installing benchfleet."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.host import Host
from benchfleet.machines.wheel import environment_name
from sshd import Sshd

from .conftest import COMMAND, User, until

ROOT = Path(__file__).parents[2]
DEPENDENCIES = [
    *("rich", "psutil", "nvidia-ml-py", "PyYAML", "sortedcontainers"),
    "tomli; python_version < '3.11'",
]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels that benchfleet needs, as ``pip download`` fills it."""
    folder = tmp_path_factory.mktemp("wheels")
    words = ["-m", "pip", "download", "-q", "--only-binary", ":all:", "--dest", str(folder)]
    words += ["-c", str(ROOT / "constraints.txt"), *DEPENDENCIES]
    subprocess.run([sys.executable, *words], check=True, timeout=200)
    return folder


def checked(user: User, name: str, *words: str, code: int) -> dict[str, dict[str, Any]]:
    """What ``hosts check`` says, by host."""
    output = user.json("hosts", "check", name, *words, code=code)
    return {one["host"]: one for one in output["hosts"]}


def troubles(user: User, name: str) -> dict[str, str]:
    return {
        host: f"{one['trouble']['stage']}: {one['trouble']['message']}"
        for host, one in checked(user, name, code=1).items()
        if one["trouble"]
    }


def test_a_host_that_can_be_used_tells_what_it_has(user: User, sshd: Sshd) -> None:
    name = user.inventory(sshd.host("lab1"), sshd.host("lab2"))
    found = checked(user, name, code=0)
    assert found["lab1"]["usable"]
    assert found["lab1"]["facts"]["environment"] == environment_name()
    assert found["lab1"]["facts"]["cores"] >= 1
    assert abs(found["lab1"]["clock_offset"]) < 60
    assert found["lab1"]["notes"] == [] or "are free" in found["lab1"]["notes"][0]
    done = user.run("hosts", "check", name, "--hosts", "lab1")
    assert "lab1" in done.stdout
    assert "one machine" not in done.stderr
    twice = user.run("hosts", "check", name)
    assert "warning: lab1 and lab2 are one machine: " in twice.stderr
    assert "lab2" not in done.stdout
    keys = user.folder / ".benchfleet" / "known_hosts"
    assert keys.read_text().count("ssh-ed25519") in (1, 2)  # both names are one address
    assert keys.parent.stat().st_mode & 0o777 == 0o700


def test_each_host_that_cannot_be_used_is_reported_with_its_reason(
    user: User, own_sshd: Sshd
) -> None:
    stranger = str(own_sshd.new_key("stranger"))
    jump = f"127.0.0.1:{own_sshd.port}"
    hosts = [
        own_sshd.host("good"),
        own_sshd.host("off", port=1),
        own_sshd.host("unnamed", address="no-such-host.invalid"),
        own_sshd.host("locked", identity=stranger),
        own_sshd.host("no-python", python="/no/such/python"),
        own_sshd.host("bare", python=""),
        own_sshd.host("no-gpu", gpus=(99,)),
        own_sshd.host("no-room", folder="/proc/x"),
        own_sshd.host("behind", jump=jump, identity=stranger),
    ]
    name = user.inventory(*hosts)
    found = troubles(user, name)
    assert {host: output.partition(":")[0] for host, output in found.items()} == {
        "off": "connect",
        "unnamed": "name",
        "locked": "permission",
        "no-python": "python",
        "bare": "benchfleet",
        "no-gpu": "devices",
        "no-room": "folder",
        "behind": "jump",
    }
    assert "Connection refused" in found["off"]
    assert "/no/such/python" in found["no-python"]
    assert "/proc cannot be written" in found["no-room"]
    output = user.run("hosts", "check", name, code=1).stdout
    assert "install it: benchfleet hosts bootstrap machines.json --hosts bare" in output
    assert re.search(r"locked +no +login refused", output)


def test_another_host_key_than_before_is_refused_until_the_old_one_is_taken_out(
    user: User, own_sshd: Sshd
) -> None:
    name = user.inventory(own_sshd.host("lab1"))
    checked(user, name, code=0)
    own_sshd.stop()
    own_sshd.new_key("host_key")
    own_sshd.start()
    keys = user.folder / ".benchfleet" / "known_hosts"
    assert troubles(user, name)["lab1"].startswith("host key: its host key is not the one")
    assert f"line 1 out of {keys}" in troubles(user, name)["lab1"]
    output = user.run("hosts", "check", name, code=1).stdout
    assert re.search(r"lab1 +no +host key refused", output)
    keys.unlink()
    checked(user, name, code=0)


def test_a_python_without_benchfleet_is_reported(user: User, sshd: Sshd) -> None:
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(user.folder / "empty")], check=True
    )
    python = str(user.folder / "empty" / "bin" / "python")
    name = user.inventory(sshd.host("bare", python=python))
    assert troubles(user, name)["bare"].startswith(
        f"benchfleet: its Python has no benchfleet: {python} ("
    )
    output = user.run("hosts", "bootstrap", name, "--yes", code=1).stdout
    assert f"bare  its {python} is used as it is; nothing is installed" in output


def test_hosts_that_share_a_folder_are_bootstrapped_once_from_wheels(
    user: User, sshd: Sshd, wheels: Path
) -> None:
    folder = str(user.folder / "a host's home")
    hosts = [sshd.host(name, python="", folder=folder) for name in ("lab1", "lab2")]
    name = user.inventory(*hosts)
    words = ["hosts", "bootstrap", name, "--wheels", str(wheels), "--yes"]
    output = user.run(*words).stdout
    assert output.count(f"{environment_name()} is there now") == 1
    assert output.count("is already there; another bootstrap made it") == 1

    found = checked(user, name, code=0)
    assert found["lab1"]["facts"]["environment"] == environment_name()
    assert found["lab1"]["facts"]["packages"] == {}
    made = Path(folder) / "envs" / environment_name()
    assert found["lab1"]["facts"]["executable"] == f"{made}/bin/python"
    script = subprocess.run([made / "bin" / "benchfleet", "--version"], capture_output=True)
    assert script.stdout.startswith(b"benchfleet ")

    before = sorted((Path(folder) / "wheels").iterdir())
    again = user.run(*words).stdout
    assert again.count(f"{environment_name()} is already there") == 2
    assert sorted((Path(folder) / "wheels").iterdir()) == before


@contextmanager
def installing(
    user: User, words: Sequence[str], *, until_line: bytes
) -> Iterator[subprocess.Popen[bytes]]:
    """A bootstrap that has printed such a line."""
    with subprocess.Popen(
        [*COMMAND, *words], cwd=user.folder, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert any(until_line in line for line in process.stdout)
        yield process


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_bootstrap_that_is_ended_leaves_nothing_on_its_host(
    user: User, own_sshd: Sshd, wheels: Path, end: signal.Signals
) -> None:
    host = own_sshd.host("lab1", python="")
    words = ["hosts", "bootstrap", user.inventory(host), "--wheels", str(wheels), "--yes"]
    envs = Path(host.folder) / "envs"
    with installing(user, words, until_line=b"Python 3") as process:
        until(lambda: list(envs.glob("*.made-*")))  # venv is at work
        os.killpg(process.pid, end)
        if end == signal.SIGINT:
            assert process.wait(60) == 130
            assert process.stdout is not None
            assert process.stdout.read() == b"lab1  interrupted\n"
            assert list(envs.glob("0*")) == []
    until(lambda: not own_sshd.sessions())
    assert list(envs.glob("0*")) == []


def test_a_bootstrap_that_waits_for_another_can_be_interrupted(user: User, own_sshd: Sshd) -> None:
    host = own_sshd.host("lab1", python="")
    words = ["hosts", "bootstrap", user.inventory(host), "--yes"]
    envs = Path(host.folder) / "envs"
    envs.mkdir(parents=True)
    with open(envs / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with installing(user, words, until_line=b"another bootstrap is under way") as process:
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(60) == 130
    until(lambda: not own_sshd.sessions())
    assert list(envs.glob("0*")) == []


def test_what_a_power_cut_leaves_does_not_look_done_and_goes_with_the_next_bootstrap(
    user: User, own_sshd: Sshd, wheels: Path
) -> None:
    host = own_sshd.host("lab1", python="")
    name = user.inventory(host)
    words = ["hosts", "bootstrap", name, "--wheels", str(wheels), "--yes"]
    envs = Path(host.folder) / "envs"
    with installing(user, words, until_line=b"install benchfleet") as process:
        own_sshd.kill()
        assert process.wait(60) == 1
    (left,) = envs.glob("0*")
    assert left.name.startswith(f"{environment_name()}.made-")
    own_sshd.start()
    assert troubles(user, name)["lab1"].startswith("benchfleet: ")

    user.run(*words)
    checked(user, name, code=0)
    (made,) = envs.glob("*.made-*")
    assert made != left


def test_a_bootstrap_into_a_folder_that_cannot_be_made_says_what_to_change(
    user: User, sshd: Sshd
) -> None:
    name = user.inventory(sshd.host("lab1", folder="/proc/x", python=""))
    done = user.run("hosts", "bootstrap", name, "--yes", code=1)
    problem = "folder /proc/x cannot be made on that host (No such file or directory)"
    assert f"lab1  failed: {problem}: change 'folder' in {name}" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_folder_of_wheels_that_lacks_something_says_how_to_fill_it(
    user: User, sshd: Sshd, wheels: Path
) -> None:
    (some,) = wheels.glob("psutil-*.whl")
    (user.folder / "few").mkdir()
    (user.folder / "few" / some.name).write_bytes(some.read_bytes())
    host = sshd.host("few", python="")
    name = user.inventory(host)
    output = user.run("hosts", "bootstrap", name, "--wheels", "few", "--yes", code=1).stdout
    assert "few  failed: could not install benchfleet: ERROR: No matching distribution" in output
    assert "pip download --dest wheels" in output
    assert not (Path(host.folder) / "envs" / environment_name()).exists()


def test_a_rehearsal_prints_every_command_and_touches_nothing(user: User) -> None:
    name = user.inventory(Host(name="lab1", address="no-such-host.invalid"))
    output = user.run(
        "hosts", "bootstrap", name, "--dry-run", "--extra", "hf", "--extra", "inspect"
    ).stdout
    environment = f'"$HOME"/.benchfleet/envs/{environment_name()}'
    for words in (
        "-m venv",
        "-m pip install",
        "constraints.txt torch",
        "[hf,inspect]",
        "os.replace",
    ):
        assert words in output
    assert environment in output
    assert [file.name for file in user.folder.iterdir()] == ["machines.json"]


def test_nothing_is_done_to_hosts_when_nobody_agrees(user: User) -> None:
    name = user.inventory(Host(name="lab1", address="no-such-host.invalid"))
    output = user.run("hosts", "bootstrap", name, code=2).stderr
    assert "add --yes, or --dry-run" in output


def test_wrong_words_are_reported_before_any_host_is_asked(user: User) -> None:
    name = user.inventory(Host(name="lab1", address="no-such-host.invalid"))
    output = user.run("hosts", "check", name, "--hosts", "lab7", code=2).stderr
    assert "--hosts lab7  no host and no label is called so; there are lab1" in output
    user.write("here: {cpu_slots: 1}", "alone.yaml")
    assert "contains no remote machine" in user.run("hosts", "check", "alone.yaml", code=2).stderr
    output = user.run("hosts", "bootstrap", name, "--wheels", "none", code=2).stderr
    assert "no wheel (*.whl) in it" in output
    output = user.run("hosts", "bootstrap", name, "--constraints", "none", code=2).stderr
    assert "--constraints none  cannot be read" in output
