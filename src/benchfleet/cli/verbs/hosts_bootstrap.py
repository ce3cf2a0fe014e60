"""``benchfleet hosts bootstrap``: an environment with this benchfleet on each host."""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchfleet.campaign.inventory import known_hosts_of
from benchfleet.cli.shared.fleet import on_all
from benchfleet.cli.text.output import say
from benchfleet.cli.verbs.hosts_check import check
from benchfleet.domain.host import EXTRAS, Host
from benchfleet.engines.diagnosis import diagnosis
from benchfleet.engines.openssh import LOST, OpenSsh, connections, quoted
from benchfleet.engines.ssh_command import Answer, ask
from benchfleet.errors import BenchfleetError, CampaignError, Mistake, wrong_option
from benchfleet.machines.bootstrap import BootstrapFailed, bootstrap
from benchfleet.machines.bootstrap_plan import EnvironmentSpec, Plan, Step
from benchfleet.machines.requirements import constraints
from benchfleet.machines.wheel import environment_name, environment_of, running_wheel


def configure(parser: argparse.ArgumentParser) -> None:
    """What the action takes."""
    parser.add_argument(
        "--extra",
        choices=EXTRAS,
        action="append",
        default=[],
        help="install this extra of benchfleet too, such as hf for models; may be given again",
    )
    parser.add_argument(
        "--wheels",
        metavar="DIR",
        type=Path,
        help="install from the wheels in this folder alone, for hosts without internet",
    )
    parser.add_argument(
        "--constraints",
        metavar="FILE",
        type=Path,
        help="versions as pip takes them (those that are here; none with --wheels)",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before anything is done")
    parser.add_argument(
        "--dry-run", action="store_true", help="print every command that hosts would run, and end"
    )


def main(arguments: argparse.Namespace, hosts: Sequence[Host]) -> int:
    """Bring this benchfleet to hosts, each into an environment of its own."""
    installation = _installation(arguments)
    if arguments.dry_run:
        for host in hosts:
            _rehearse(host, installation)
        return 0
    bare = [host for host in hosts if not host.python]
    if bare and not arguments.yes and not _agreed(bare):
        return 1
    report = _HostOutput(hosts)
    with connections(known_hosts_of(arguments.machines)) as ssh:
        work = _Work(ssh=ssh, report=report, machines=arguments.machines)
        usable = on_all(hosts, lambda host: _one(host, installation, work), end=work.end)
        return 0 if all(usable) else 1


def _installation(arguments: argparse.Namespace) -> EnvironmentSpec:
    mistakes = []
    wheels: tuple[Path, ...] = ()
    if arguments.wheels is not None:
        wheels = tuple(sorted(arguments.wheels.glob("*.whl")))
        if not wheels:
            message = "no wheel (*.whl) in it; name a folder that pip download filled"
            mistakes.append(Mistake(key=f"--wheels {arguments.wheels}", message=message))
    pins = ""
    if arguments.constraints is not None:
        try:
            pins = arguments.constraints.read_text("utf-8")
        except (OSError, ValueError) as error:
            message = f"cannot be read: {error}"
            mistakes.append(Mistake(key=f"--constraints {arguments.constraints}", message=message))
    elif not wheels:
        pins = constraints()
    if mistakes:
        raise CampaignError("command line", mistakes)
    return EnvironmentSpec(
        wheel=running_wheel(), constraints=pins, extras=tuple(arguments.extra), wheels=wheels
    )


def _agreed(hosts: Sequence[Host]) -> bool:
    """Whether the user says yes."""
    print(f"benchfleet {environment_name()} is to be installed on")
    for host in hosts:
        say(f"  {host.name}  {environment_of(host)}")
    if not sys.stdin.isatty():
        message = "nobody is there to agree; add --yes, or --dry-run to see every command"
        raise wrong_option("hosts bootstrap", message)
    return input("go on? [y/N] ").strip().lower() in ("y", "yes")


def _rehearse(host: Host, installation: EnvironmentSpec) -> None:
    if host.python:
        say(f"{host.name}: its {host.python} is used as it is; nothing is installed")
        return
    say(f"{host.name}: python3 stands for the first Python that will do")
    for step in Plan(host, installation).rehearsed():
        say(f"  # {step.title}")
        for line in quoted(step.words).splitlines():
            say(f"  {line}")


class _HostOutput:
    """Says what is done on which host, a line at a time."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._width = max(len(host.name) for host in hosts)
        self._lock = threading.Lock()

    def __call__(self, host: Host, text: str) -> None:
        with self._lock:
            for line in text.splitlines():
                say(f"{host.name:<{self._width}}  {line}", flush=True)


class _Interrupted(Exception):
    """The user ended the command."""


@dataclass(frozen=True, kw_only=True)
class _Work:
    """What is under way on all hosts of the inventory `machines`."""

    ssh: OpenSsh
    report: _HostOutput
    machines: Path
    ended: threading.Event = field(default_factory=threading.Event)
    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, process: subprocess.Popen[bytes]) -> None:
        """Note a process of ssh, which `end` kills."""
        with self._lock:
            self._running.add(process)
            if self.ended.is_set():
                process.kill()

    def remove(self, process: subprocess.Popen[bytes]) -> None:
        """Leave it to itself from now on. Raises _Interrupted where `end` killed it."""
        with self._lock:
            self._running.discard(process)
            self.check()

    def end(self) -> None:
        """Have all hosts end what they do."""
        with self._lock:
            self.ended.set()
            for process in self._running:
                process.kill()

    def check(self) -> None:
        """Raises _Interrupted after `end`."""
        if self.ended.is_set():
            raise _Interrupted

    def ask(self, host: Host, step: Step) -> Answer:
        """Run a step. Raises BootstrapFailed where the connection fails, and _Interrupted."""
        answer = ask(
            self.ssh, host, step.words, sent=step.sent, timeout=step.timeout, started=self.add
        )
        self.check()
        if answer.code == LOST:
            raise BootstrapFailed(diagnosis(answer.code, answer.err, jump=host.jump).message)
        return answer


def _one(host: Host, installation: EnvironmentSpec, work: _Work) -> bool:
    """Bootstrap one host; whether it can be used now."""
    tell = partial(work.report, host)
    try:
        if host.python:
            tell(f"its {host.python} is used as it is; nothing is installed")
            trouble = check(host, work.ssh, started=work.add).trouble
            work.check()
            tell(f"cannot be used: {trouble.message}" if trouble else "can be used")
            return trouble is None
        bootstrap(
            host,
            installation,
            ask=partial(work.ask, host),
            hold=lambda step: _hold_remote_lock(work, host, step),
            tell=tell,
        )
    except _Interrupted:
        tell("interrupted")
        return False
    except BenchfleetError as error:
        tell(f"failed: {error}")
        return False
    return True


@contextmanager
def _hold_remote_lock(work: _Work, host: Host, step: Step) -> Iterator[bool]:
    """Keep the lock's command running over there for the block, whether or not it keeps others
    out; its input's end ends it. Ctrl-C does not reach it: it tidies up there after the block."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        work.ssh.argv(host, step.words), stdin=pipe, stdout=pipe, start_new_session=True
    ) as holder:
        work.add(holder)
        for line in holder.stdout or ():
            if line.strip() == b"busy":
                work.report(host, "another bootstrap is under way there; waiting for it")
            elif line.strip() in (b"held", b"unlocked"):
                break
            elif line.startswith(b"refused"):
                why = line.decode(errors="replace").removeprefix("refused").strip()
                raise BootstrapFailed(
                    f"folder {host.folder} cannot be made on that host ({why}): change 'folder' "
                    f"in {work.machines}"
                )
        else:
            work.check()
            raise BootstrapFailed("could not lock the folder of environments there")
        work.remove(holder)
        yield line.strip() == b"held"
