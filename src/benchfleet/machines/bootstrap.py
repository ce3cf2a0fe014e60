"""Bringing benchfleet to a host, step by step; how a command gets there is the caller's affair."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from benchfleet.domain.host import Host
from benchfleet.errors import BenchfleetError, ProtocolError
from benchfleet.machines import facts
from benchfleet.machines.bootstrap_plan import EnvironmentSpec, Plan, Step
from benchfleet.machines.requirements import requirements
from benchfleet.machines.wheel import environment_name, environment_of

MIN_PYTHON = (3, 10)
_PACKAGES_BY_EXTRA = {  # those of `facts` that each extra installs
    "hf": {"torch", "transformers"},
    "lm-eval": {"torch", "transformers", "lm_eval"},
    "benchmarks": {"torch", "transformers", "lm_eval", "rouge"},
    "inspect": {"inspect_ai"},
    "quantization": {"torch", "transformers", "bitsandbytes"},
}
_NETWORK_ERROR = re.compile(
    r"name resolution|Network is unreachable|No route to host|timed out|NewConnectionError"
    r"|Failed to establish|ProxyError|getaddrinfo"
)


class BootstrapFailed(BenchfleetError):
    """A host could not be given its environment."""


@dataclass(frozen=True, kw_only=True)
class Python:
    """An interpreter on a host."""

    path: str
    version: tuple[int, int]
    complete: bool = True  # it can make environments


class CommandResult(Protocol):
    """How a command ended."""

    @property
    def code(self) -> int: ...
    @property
    def out(self) -> str: ...
    @property
    def err(self) -> str: ...


Ask = Callable[[Step], CommandResult]
Hold = Callable[[Step], AbstractContextManager[bool]]


def bootstrap(
    host: Host, spec: EnvironmentSpec, *, ask: Ask, hold: Hold, tell: Callable[[str], None]
) -> None:
    """Make sure that the host has the environment of this benchfleet, with the extras wanted.

    `ask` runs a step there. `hold` keeps a lock's step running for a block and yields whether the
    lock is exclusive. `tell` receives progress messages. An environment without the extras stays
    until the new one is complete, since slots may run in it. Raises BootstrapFailed, or what
    `ask` raises; then the old environment is unchanged.
    """
    if _is_there(Plan(host, spec), ask):
        tell(f"{environment_name()} is already there")
        return
    answer = _done(Plan(host, spec).search(), ask)
    machine = answer.out.split()[-1]
    try:
        python = suitable_python(answer.out)
    except BootstrapFailed as error:
        python = _sent_python(Plan(host, spec), machine, error, ask)
    plan = Plan(host, spec, python.path)
    tell(f"Python {'.'.join(map(str, python.version))} at {python.path}")
    with hold(plan.lock()) as alone:
        if _is_there(plan, ask):
            tell(f"{environment_name()} is already there; another bootstrap made it")
            return
        for step in plan.prepare(alone=alone):
            _done(step, ask)
        tell(f"made an environment: {environment_of(host)}")
        listed = _done(plan.list_wheels(), ask).out if spec.wheels else ""
        for step in plan.send([" ".join(line.split()) for line in listed.splitlines()]):
            _done(step, ask)
            tell(f"sent {step.title.removeprefix('send ')}")
        for step in plan.install():
            tell(f"{step.title} …")
            _check_installed(step, ask, spec, python, machine)
        installed = facts.parse_facts(_done(plan.check(), ask).out)
        if installed.environment != environment_name():
            raise BootstrapFailed(
                f"wrong environment {installed.environment}, not {environment_name()}; remove "
                "modules of benchfleet from the host's PYTHONPATH"
            )
        _done(plan.publish(), ask)
        packages = ", ".join(f"{name} {version}" for name, version in installed.packages.items())
        tell(f"{environment_name()} is there now{f', with {packages}' if packages else ''}")


def _sent_python(plan: Plan, machine: str, problem: BootstrapFailed, ask: Ask) -> Python:
    """Send a Python to a host that has none that will do, which is the `problem`."""
    if plan.spec.python_for is None:
        raise problem
    lacks = _done(plan.look_at_system(), ask).out.split()
    if "musl" in lacks:
        raise BootstrapFailed(f"{problem} (one cannot be sent: its C library is musl, not glibc)")
    if lacks:
        missing = " and ".join(lacks)
        raise BootstrapFailed(f"{problem} (one cannot be sent: its image lacks {missing})")
    try:
        archive = plan.spec.python_for(machine)
    except BenchfleetError as error:
        raise BootstrapFailed(f"{problem} (one cannot be sent: {error})") from None
    for step in plan.send_python(archive):
        _done(step, ask)
    return suitable_python(_done(plan.search(), ask).out)


def suitable_python(answer: str) -> Python:
    """The first interpreter of an answer to `Plan.search` that will do. Raises BootstrapFailed."""
    pythons = [
        Python(path=path, version=(int(major), int(minor)), complete=complete == "True")
        for major, minor, complete, path in re.findall(
            r"^(\d+) (\d+) (True|False) (\S.*)$", answer, re.MULTILINE
        )
    ]
    recent = [python for python in pythons if python.version >= MIN_PYTHON]
    for python in recent:
        if python.complete:
            return python
    least = ".".join(map(str, MIN_PYTHON))
    if recent:
        raise BootstrapFailed(
            f"{recent[0].path} cannot make environments; install its venv module there "
            "(apt-get install python3-venv)"
        )
    have = ", ".join(
        f"{python.path} is {python.version[0]}.{python.version[1]}" for python in pythons
    )
    raise BootstrapFailed(
        f"no Python {least} or newer is there{f' ({have})' if have else ''}; install one, or name "
        "an interpreter that has benchfleet under 'python'"
    )


def download_command(python: Python, machine: str, extras: Sequence[str]) -> str:
    """What collects, on a machine with internet, the wheels that such a host needs."""
    words = ["python3", "-m", "pip", "download", "--dest", "wheels", "--only-binary", ":all:"]
    words += ["--python-version", ".".join(map(str, python.version))]
    for platform in ("manylinux_2_28", "manylinux_2_17", "manylinux2014"):
        words += ["--platform", f"{platform}_{machine}"]
    for line in requirements(*extras):
        requirement, _, marker = (part.strip() for part in line.partition(";"))
        bound = re.fullmatch(r"python_version (<|>=) '(\d+)\.(\d+)'", marker)
        if bound is None or (python.version < (int(bound[2]), int(bound[3]))) == (bound[1] == "<"):
            words.append(requirement)
    return shlex.join(words)


def _is_there(plan: Plan, ask: Ask) -> bool:
    answer = ask(plan.look())
    if answer.code != 0:
        return False
    try:
        installed = facts.parse_facts(answer.out)
    except ProtocolError:
        return False
    needed = set[str]().union(*(_PACKAGES_BY_EXTRA[extra] for extra in plan.spec.extras))
    whole = needed <= set(installed.packages)
    return whole and installed.environment == environment_name()


def _done(step: Step, ask: Ask) -> CommandResult:
    answer = ask(step)
    if answer.code != 0:
        raise BootstrapFailed(f"could not {step.title}: {_last(answer)}")
    return answer


def _check_installed(
    step: Step, ask: Ask, spec: EnvironmentSpec, python: Python, machine: str
) -> None:
    answer = ask(step)
    if answer.code == 0:
        return
    why = f"could not {step.title}: {_last(answer)}"
    if spec.wheels:
        why += "\nthe folder of wheels must hold all that is needed, for its Python and machine"
    elif _NETWORK_ERROR.search(answer.out + answer.err):
        why += "\nit has no way to the package index; add --wheels wheels, made elsewhere by"
    else:
        raise BootstrapFailed(why)
    raise BootstrapFailed(f"{why}\n{download_command(python, machine, spec.extras)}")


def _last(answer: CommandResult) -> str:
    """The last complaint; pip's own, where there is one."""
    lines = [line.strip() for line in f"{answer.out}\n{answer.err}".splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [f"exit code {answer.code}"])[-1]
