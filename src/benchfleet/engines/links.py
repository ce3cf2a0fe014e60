"""The link to one host: reached, examined, doubted, and reached again after it was lost."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence

from benchfleet.domain.host import Host
from benchfleet.engines import commands
from benchfleet.engines.base import EngineEvent, HostLost, HostReady, SlotId
from benchfleet.engines.diagnosis import diagnosis
from benchfleet.engines.openssh import LOST, OpenSsh
from benchfleet.errors import BenchfleetError

Examine = Callable[[Host, str], HostReady]

FIRST_PAUSE = 2.0  # seconds before a host that was not reached is tried again; doubled each time
LONGEST_PAUSE = 60.0
_ANSWER = 120.0  # seconds that a host is given to tell of itself


class Link:
    """Keeps one host within reach, in a thread of its own, so that it holds up no other.

    `examine` makes what the host tells of itself into a `HostReady`, or raises a BenchfleetError
    that says why it is not to be used. `abandon` ends what the engine has open on a host that is
    lost, and returns when all of it is told; `forgotten` gives the slots whose end nobody saw.
    """

    def __init__(
        self,
        host: Host,
        ssh: OpenSsh,
        post: Callable[[EngineEvent], None],
        examine: Examine,
        abandon: Callable[[Host, str], None],
        forgotten: Callable[[Host], Sequence[SlotId]],
    ) -> None:
        self.host = host
        self._ssh, self._post, self._examine, self._abandon = ssh, post, examine, abandon
        self._forgotten = forgotten
        self._ended = threading.Event()
        self._doubted = threading.Event()
        self._asking: subprocess.Popen[bytes] | None = None
        self._leftovers: list[SlotId] = []  # slots that may live on there, unseen
        self._said = ""
        self._ready: HostReady | None = None  # what it was when it was reached
        self._thread = threading.Thread(target=self._keep, name=f"host {host.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def doubt(self) -> None:
        """A connection broke: is the host still there?"""
        self._doubted.set()

    def end(self) -> None:
        """Try no longer."""
        self._ended.set()
        self._doubted.set()
        if (asking := self._asking) is not None:
            asking.kill()

    def join(self) -> None:
        """Wait until nothing of it is under way."""
        self._thread.join()

    def _keep(self) -> None:
        pause = FIRST_PAUSE
        while not self._ended.is_set():
            if self._reach():
                pause = FIRST_PAUSE
                self._watch()
            else:
                self._ended.wait(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)

    def _reach(self) -> bool:
        """Have it examined, and what lives on there ended; whether it can be used."""
        self._doubted.clear()
        self._sweep()
        code, said, wrong = self._ask(commands.facts(self.host))
        if code == 0:
            try:
                ready = self._examine(self.host, said)
            except BenchfleetError as error:
                self._tell_lost(str(error), hopeless=True)
                return False
            self._said = ""
            self._ready = ready
            self._tell(ready)
            return True
        found = diagnosis(code, wrong, jump=self.host.jump)
        self._tell_lost(found.message, hopeless=found.hopeless)
        return False

    def _watch(self) -> None:
        """Wait until the host is lost; say so, too, where it was doubted without reason."""
        while not self._ended.is_set():
            self._doubted.wait()
            self._doubted.clear()
            if self._ended.is_set():
                return
            code, _, wrong = self._ask(commands.alive(self.host))
            if code != 0:
                why = diagnosis(code, wrong, jump=self.host.jump).message
                self._abandon(self.host, why)
                self._tell_lost(why)
                return
            self._sweep()
            if self._ready is not None:
                self._tell(self._ready)

    def _sweep(self) -> None:
        """End what lives on there of slots whose end nobody saw."""
        self._leftovers += self._forgotten(self.host)
        if not self._leftovers:
            return
        code, _, _ = self._ask(commands.sweep(self.host, self._leftovers))
        if code == 0:
            self._leftovers.clear()

    def _ask(self, command: Sequence[str]) -> tuple[int, str, str]:
        """Run it there: exit code and what it said. One who does not answer is lost."""
        words = self._ssh.argv(self.host, command)
        try:
            return self._asked(words)
        except OSError as error:  # no ssh here, or no process or file more for it
            return LOST, "", f"ssh cannot be started here: {error}"

    def _asked(self, words: Sequence[str]) -> tuple[int, str, str]:
        with tempfile.TemporaryFile() as heard:  # a shared connection may hold on to a pipe
            with subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=heard,
                start_new_session=True,
            ) as asking:
                self._asking = asking
                if self._ended.is_set():
                    asking.kill()
                try:
                    said, _ = asking.communicate(timeout=_ANSWER)
                except subprocess.TimeoutExpired:
                    asking.kill()
                    said, _ = asking.communicate()
                    heard.write(f"no answer within {_ANSWER:g} s".encode())
                self._asking = None
            heard.seek(0)
            wrong = heard.read()
        return asking.returncode, said.decode("utf-8", "replace"), wrong.decode("utf-8", "replace")

    def _tell_lost(self, reason: str, *, hopeless: bool = False) -> None:
        """Say it once, not again at every try that fails alike."""
        if reason != self._said:
            self._said = reason
            self._tell(HostLost(host=self.host.name, reason=reason, hopeless=hopeless))

    def _tell(self, event: EngineEvent) -> None:
        if not self._ended.is_set():
            self._post(event)
