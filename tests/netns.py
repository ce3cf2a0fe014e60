"""Hosts in namespaces of their own: name, address, processes, clock and an sshd, on this machine.

Each is reached over a cable that can be pulled. Nothing of them outlives the tests.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchfleet.domain.host import Host
from sshd import need_sshd
from watchers import ends_with_us

_CONFIG = """\
ListenAddress 0.0.0.0:22
HostKey {folder}/host_key
AuthorizedKeysFile {identity}.pub
PidFile none
SetEnv {environment}
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
MaxSessions 100
LogLevel VERBOSE
"""
# As the first process of its host: when it ends, the kernel ends all others there.
_BOOT = """\
hostname "$1"
test -z "$4" || mount -t tmpfs none "$4"
exec "$2" -D -e -f "$3"
"""
_SHIFTED = """\
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, id, now);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += OFFSET;
    return failed;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int failed = syscall(SYS_gettimeofday, now, zone);
    if (!failed && now) now->tv_sec += OFFSET;
    return failed;
}
time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}
"""
_TESTING = ipaddress.IPv4Network("198.18.0.0/15")  # nobody's, by RFC 2544
_BOUND = 20  # seconds for a host to answer, and for what was killed to be gone


def need_namespaces() -> None:
    """Skips the test where no host can be made, and fails it in CI."""
    need_sshd()
    lacking = [name for name in ("ip", "unshare", "nsenter", "cc") if not shutil.which(name)]
    if os.geteuid() != 0 or sys.platform != "linux":
        reason = "hosts in network namespaces can be made by root alone, on Linux"
    elif lacking:
        reason = f"no {', '.join(lacking)} here: packages iproute2, util-linux and gcc have them"
    elif subprocess.run(["unshare", "--net", "--uts", "--pid", "true"], check=False).returncode:
        reason = "this system lets nobody make a namespace"
    else:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class Machine:
    """A host in its own namespaces; `Machines.add` makes it and `Machines.end` ends it."""

    def __init__(
        self, name: str, folder: Path, identity: Path, *, hidden: Path | None, clock: int
    ) -> None:
        self.name, self.folder, self.identity = name, folder, identity
        self._hidden = hidden
        self._init = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self.new_host_key()
        (folder / "home").mkdir(exist_ok=True)  # see `Sshd`
        environment = [f"BENCHFLEET_TESTED_ON={name}", f"HOME={folder}/home"]
        if clock:
            environment.append(f"LD_PRELOAD={_shifted_clock(folder, clock)}")
        config = _CONFIG.format(folder=folder, identity=identity, environment=" ".join(environment))
        (folder / "sshd_config").write_text(config)
        self._interface = f"bf{random.getrandbits(40):010x}"
        network = ipaddress.IPv4Network((_TESTING.network_address + 4 * random.getrandbits(15), 30))
        self._here, self.address = (f"{each}" for each in network.hosts())
        self._network = subprocess.Popen(  # holds the network, whatever runs there
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def lay_cable(self) -> None:
        """Connect it with this machine. Its address there is known for good, so that with the
        cable pulled nobody says that it cannot be reached: what is sent is lost."""
        assert self._network.stdout is not None
        assert self._network.stdout.readline() == b"up\n"
        there, far = str(self._network.pid), "02:00:00:00:00:02"
        _ip("link", "add", self._interface, "type", "veth",
            "peer", "name", "eth0", "address", far, "netns", there)  # fmt: skip
        _ip("address", "add", f"{self._here}/30", "dev", self._interface)
        _ip("link", "set", self._interface, "up")
        _ip("address", "add", f"{self.address}/30", "dev", "eth0", inside=there)
        _ip("link", "set", "eth0", "up", inside=there)
        _ip("neighbour", "replace", self.address, "lladdr", far,
            "dev", self._interface, "nud", "permanent")  # fmt: skip

    def host(self, **changes: Any) -> Host:
        """It, as a host of an inventory that runs commands with our own Python."""
        reached = {
            "name": self.name,
            "address": self.address,
            "user": "root",
            "port": 22,
            "identity": str(self.identity),
            "python": sys.executable,
            "folder": str(self.folder / "home"),
            "cpu_slots": 2,
        }
        return Host(**{**reached, **changes})

    def new_host_key(self) -> None:
        """Another key, shown from the next `start` on."""
        _make_key(self.folder / "host_key")

    def start(self) -> None:
        """Switch it on and wait until its sshd answers, where the cable is not pulled."""
        Path("/run/sshd").mkdir(parents=True, exist_ok=True)
        words = ["nsenter", f"--net=/proc/{self._network.pid}/ns/net"]
        words += ["unshare", "--uts", "--pid", "--mount-proc", "--fork", "--kill-child"]
        output = [self.name, need_sshd(), str(self.folder / "sshd_config"), str(self._hidden or "")]
        with open(self.folder / "sshd.log", "ab") as log:
            self._process = subprocess.Popen(
                [*words, "sh", "-ec", _BOOT, "boot", *output],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._watcher = ends_with_us(f"kill -9 {self._process.pid}")
        above = psutil.Process(self._process.pid)
        _until(lambda: bool(above.children()) or self._process_ended())
        self._init = next((child.pid for child in above.children()), 0)
        _until(lambda: self._answers() or self._process_ended())
        if self._process_ended():
            raise RuntimeError(f"it does not start: {self.log()}")

    def kill(self) -> None:
        """End all its processes at once."""
        if self._process is not None and self._watcher is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._init or self._process.pid, signal.SIGKILL)
            self._process.wait(_BOUND)
            self._watcher.communicate(timeout=_BOUND)
        self._process = self._watcher = None

    def cut(self) -> None:
        """Pull the cable: nothing arrives any more, in either direction."""
        _ip("link", "set", "eth0", "down", inside=str(self._network.pid))

    def mend(self) -> None:
        """Plug the cable in again."""
        _ip("link", "set", "eth0", "up", inside=str(self._network.pid))

    def processes(self) -> dict[int, str]:
        """What runs there besides its sshd: by process id here, the command line."""
        if self._process is None:
            return {}
        found = {}
        space = os.readlink(f"/proc/{self._init}/ns/pid")
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if (
                    os.readlink(f"/proc/{process.pid}/ns/pid") == space
                    and process.status() != psutil.STATUS_ZOMBIE
                    and not process.name().startswith("sshd")
                ):
                    found[process.pid] = " ".join(process.cmdline())
        return found

    def log(self) -> str:
        """What its sshd wrote so far."""
        return (self.folder / "sshd.log").read_text(errors="replace")

    def end(self) -> None:
        """Take it away, cable and all."""
        self.kill()
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "delete", self._interface)
        self._network.communicate(timeout=_BOUND)

    def _process_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.address, 22), timeout=1) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False


class Machines:
    """The hosts of one test, which one client key opens."""

    def __init__(self, new_folder: Callable[[str], Path]) -> None:
        need_namespaces()
        self._new_folder = new_folder
        self._made: list[Machine] = []
        self.identity = new_folder("client") / "key"
        _make_key(self.identity)

    def add(self, name: str, *, hidden: Path | None = None, clock: int = 0) -> Machine:
        """A host that is on. It sees this machine's files but those in `hidden`, and its clock is
        ahead of ours by `clock` seconds."""
        machine = Machine(name, self._new_folder(name), self.identity, hidden=hidden, clock=clock)
        self._made.append(machine)
        machine.lay_cable()
        machine.start()
        return machine

    def end(self) -> None:
        """Take all of them away."""
        with contextlib.ExitStack() as ends:
            for machine in self._made:
                ends.callback(machine.end)


@contextlib.contextmanager
def machines(new_folder: Callable[[str], Path]) -> Iterator[Machines]:
    """Hosts for as long as the block runs; `new_folder` makes a folder that begins with a name."""
    made = Machines(new_folder)
    try:
        yield made
    finally:
        made.end()


def _ip(*words: str, inside: str = "") -> None:
    """Run ``ip``, in the network of process `inside` where one is named."""
    within = ["nsenter", f"--net=/proc/{inside}/ns/net"] if inside else []
    done = subprocess.run([*within, "ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, ["ip", *words], stderr=done.stderr)


def _make_key(place: Path) -> None:
    place.unlink(missing_ok=True)
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", place.name, "-f", str(place)]
    subprocess.run(words, check=True)


def _shifted_clock(folder: Path, ahead: int) -> Path:
    """A library that tells every program which loads it a time `ahead` seconds from now."""
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(_SHIFTED)
    words = ["cc", "-shared", "-fPIC", "-O1", f"-DOFFSET={ahead}", "-o", str(library), str(source)]
    subprocess.run(words, check=True)
    return library


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _BOUND
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
