"""Makes a rented instance a host: login, hardware, dead-man timer, environment.

Each stage has a limit of its own and fails by name. No cell is claimed before all are done, so no
failure here uses up a try of a cell.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from benchfleet.domain.hardware import is_gpu
from benchfleet.domain.host import Host
from benchfleet.domain.rent import RentEntry
from benchfleet.engines.diagnosis import diagnosis
from benchfleet.engines.openssh import LOST, OpenSsh, literal
from benchfleet.engines.ssh_command import Answer, ask
from benchfleet.environment import child_environment
from benchfleet.errors import BenchfleetError
from benchfleet.ledger.base import since_boot
from benchfleet.machines.bootstrap import BootstrapFailed, bootstrap
from benchfleet.machines.bootstrap_plan import EnvironmentSpec, Step
from benchfleet.machines.requirements import constraints
from benchfleet.machines.standalone_python import standalone_python
from benchfleet.machines.wheel import interpreter_of, running_wheel
from benchfleet.providers.dead_man import FOLDER
from benchfleet.rentals.stage_limits import StageLimits

PrepareStage = Literal["ssh_wait", "hardware", "dead_man", "bootstrap"]
_KEY_REFUSED_S = 120.0  # the key may arrive on the instance a little late
_PAUSE_S = 3.0  # between two tries to log in
_ANSWER_S = 30.0
_FIELDS = "name,memory.total,memory.used,driver_version,uuid"
SMI = ("nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits")
KERNEL = ("uname", "-sr")
_MAX_USED_MIB = 1000.0  # of a GPU's memory, by others
_INSTALL_TRIES = 2
_MIN_VRAM_SHARE = 0.95
ARMED = f"{FOLDER}/armed"  # written by the dead-man timer once its key was tried


class PrepareFailed(BenchfleetError):
    """An instance cannot be used: at which stage, and why."""

    def __init__(self, stage: PrepareStage, kind: str, message: str) -> None:
        super().__init__(message)
        self.stage, self.kind = stage, kind

    def to_dict(self) -> dict[str, str]:
        """JSON values, as a rental's `failure`."""
        return {"stage": self.stage, "kind": self.kind, "message": str(self)}


@dataclass(frozen=True, kw_only=True)
class RentedSsh(OpenSsh):
    """How rented hosts are reached: addresses are reused, so each rental has its own host key, and
    only the campaign's key is offered."""

    def options(self, host: Host) -> list[str]:
        own = [f"HostKeyAlias={host.name}", "IdentitiesOnly=yes"]
        own.append(f'UserKnownHostsFile="{literal(self.known_hosts)}"')
        return [*(part for one in own for part in ("-o", one)), *super().options(host)]


def campaign_key(folder: Path) -> Path:
    """The private SSH key of this installation for rented hosts, made where there is none."""
    keys = folder / "rented"
    key = keys / "key"
    if not key.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix="rented-", dir=folder))
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "benchfleet"]
        try:
            subprocess.run(
                [*words, "-f", str(new / "key")],
                check=True,
                capture_output=True,
                env=child_environment(),
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise BenchfleetError(f"ssh-keygen cannot make a key: {error}") from error
        try:
            new.rename(keys)
        except OSError:  # another run was faster
            shutil.rmtree(new)
    return key


@dataclass(frozen=True, kw_only=True)
class _Gpu:
    """A GPU as nvidia-smi shows it; memory in MiB."""

    name: str
    memory: float
    used: float
    driver: str
    uuid: str


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """The stages from an address to a host, for one rental. `stopping` ends it early."""

    host: Host
    entry: RentEntry
    limits: StageLimits
    ssh: OpenSsh
    vram: int  # bytes for each GPU, as offered
    stopping: threading.Event
    clock: Callable[[], float] = since_boot
    facts: dict[str, Any] = field(default_factory=dict)  # of the machine, as `run` finds them
    begin: Callable[[PrepareStage], None] = lambda stage: None  # is called as each stage begins

    def run(self) -> Host:
        """The host, ready for slots. Raises PrepareFailed."""
        self.begin("ssh_wait")
        self._log_in()
        self.facts["kernel"] = self._ask(KERNEL).out.strip()
        if self.entry.cpu_slots is None:
            self.begin("hardware")
            self._check_hardware()
        if self.entry.needs_dead_man:
            self.begin("dead_man")
            self._await_timer()
        self.begin("bootstrap")
        return self._install()

    def _log_in(self) -> None:
        """An open port is not ready, nor is a status: a word must come back."""
        began, refused_since = self.clock(), 0.0
        while True:
            nonce = secrets.token_hex(8)
            answer = self._ask(["echo", nonce])
            if answer.code == 0 and nonce in answer.out:
                return
            now = self.clock()
            cause = diagnosis(answer.code, answer.err)
            if "Host key verification failed" in answer.err:
                raise PrepareFailed("ssh_wait", "ssh_failed", "its host key changed")
            refused = "Permission denied" in answer.err
            refused_since = (refused_since or now) if refused else 0.0
            if refused and now - refused_since > _KEY_REFUSED_S:
                raise PrepareFailed("ssh_wait", "ssh_failed", f"key refused: {cause.message}")
            if now - began > self.limits.ssh_wait:
                raise PrepareFailed("ssh_wait", "ssh_failed", cause.message)
            self._pause("ssh_wait")

    def _check_hardware(self) -> None:
        answer = ask(self.ssh, self.host, SMI, timeout=self.limits.hardware)
        if answer.code != 0:
            raise PrepareFailed("hardware", "no_driver", f"nvidia-smi fails: {answer.last}")
        try:
            gpus = _gpus(answer.out)
        except ValueError:
            message = f"nvidia-smi says: {answer.last}"
            raise PrepareFailed("hardware", "no_driver", message) from None
        same = [is_gpu(self.entry.gpu, gpu.name, round(gpu.memory) << 20) for gpu in gpus]
        if len(gpus) != self.entry.gpus or not all(same):
            names = ", ".join(gpu.name for gpu in gpus) or "no GPU"
            what = f"it has {names}, not {self.entry.gpus} × {self.entry.gpu}"
            raise PrepareFailed("hardware", "wrong_hardware", what)
        least = min(gpu.memory for gpu in gpus) * 2**20
        if least < _MIN_VRAM_SHARE * self.vram:
            what = f"its GPU has {least / 2**30:.1f} GiB, {self.vram / 2**30:.1f} were offered"
            raise PrepareFailed("hardware", "wrong_hardware", what)
        if (used := max(gpu.used for gpu in gpus)) > _MAX_USED_MIB:
            what = f"others use {used:.0f} MiB of its GPU"
            raise PrepareFailed("hardware", "wrong_hardware", what)
        self.facts["driver"], self.facts["gpus"] = gpus[0].driver, [gpu.uuid for gpu in gpus]

    def _await_timer(self) -> None:
        began = self.clock()
        while self._ask(["cat", ARMED]).code != 0:
            if self.clock() - began > self.limits.dead_man:
                what = "its dead-man timer is not armed; 'dead_man: none' rents it without one"
                raise PrepareFailed("dead_man", "unhealthy", what)
            self._pause("dead_man")

    def _install(self) -> Host:
        if self.host.python:
            return self.host
        spec = EnvironmentSpec(
            wheel=running_wheel(),
            constraints=constraints(),
            extras=self.entry.extras,
            python_for=standalone_python,
        )
        end = self.clock() + self.limits.bootstrap

        def run(step: Step) -> Answer:
            return self._step(step, end - self.clock())

        for number in range(1, _INSTALL_TRIES + 1):
            try:
                bootstrap(self.host, spec, ask=run, hold=self._hold, tell=lambda text: None)
                return replace(self.host, python=interpreter_of(self.host))
            except BenchfleetError as error:
                if number == _INSTALL_TRIES or self.clock() > end:
                    raise PrepareFailed("bootstrap", "unhealthy", str(error)) from error
            self._pause("bootstrap")
        raise AssertionError("unreachable")

    def _step(self, step: Step, remaining: float) -> Answer:
        timeout = max(1.0, min(step.timeout, remaining))
        answer = ask(self.ssh, self.host, step.words, sent=step.sent, timeout=timeout)
        if answer.code == LOST:
            raise BootstrapFailed(diagnosis(answer.code, answer.err).message)
        return answer

    @contextmanager
    def _hold(self, step: Step) -> Iterator[bool]:
        """Nobody else installs on an instance that we alone know."""
        yield True

    def _ask(self, words: Sequence[str]) -> Answer:
        return ask(self.ssh, self.host, words, timeout=_ANSWER_S)

    def _pause(self, stage: PrepareStage) -> None:
        if self.stopping.wait(_PAUSE_S):
            raise PrepareFailed(stage, "interrupted", "the run ends")


def _gpus(text: str) -> list[_Gpu]:
    rows = [[one.strip() for one in line.split(",")] for line in text.splitlines() if line.strip()]
    return [
        _Gpu(name=name, memory=float(memory), used=float(used), driver=driver, uuid=uuid)
        for name, memory, used, driver, uuid in rows
    ]
