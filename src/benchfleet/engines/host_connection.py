"""The connection to one host: established, checked, and established again after it was lost."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence

from benchfleet.domain.host import Host
from benchfleet.engines import commands
from benchfleet.engines.base import EngineEvent, HostLost, HostReady, SlotId
from benchfleet.engines.diagnosis import Diagnosis, diagnosis
from benchfleet.engines.openssh import LOST, OpenSsh
from benchfleet.engines.plugin import Examine
from benchfleet.engines.ssh_command import Answer, ask
from benchfleet.errors import BenchfleetError

FIRST_RETRY_S = 2.0  # doubled each time
MAX_RETRY_S = 60.0


class HostConnection:
    """Connects to one host, in a thread of its own, so that it holds up no other.

    `examine` turns the host's facts into a `HostReady`, or raises a BenchfleetError that says why
    it cannot be used. `abandon` ends all slots on a host that is lost, and returns when their last
    events are posted. `unseen` returns slots whose end nobody saw, which may run on there.
    """

    def __init__(
        self,
        host: Host,
        ssh: OpenSsh,
        post: Callable[[EngineEvent], None],
        examine: Examine,
        abandon: Callable[[Host, str], None],
        unseen: Callable[[Host], Sequence[SlotId]],
    ) -> None:
        self.host = host
        self._ssh, self._post, self._examine, self._abandon = ssh, post, examine, abandon
        self._unseen = unseen
        self._ended = threading.Event()
        self._doubted = threading.Event()
        self._command: subprocess.Popen[bytes] | None = None
        self._leftovers: list[SlotId] = []  # to be ended there
        self._reported = ""  # why it was lost last
        self._thread = threading.Thread(target=self._run, name=f"host {host.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def check(self) -> None:
        """Ask the host whether it is still there, since a slot's connection broke."""
        self._doubted.set()

    def end(self) -> None:
        """Stop trying."""
        self._ended.set()
        self._doubted.set()
        if (command := self._command) is not None:
            command.kill()

    def join(self) -> None:
        """Wait until its thread has ended."""
        self._thread.join()

    def _run(self) -> None:
        retry = FIRST_RETRY_S
        while not self._ended.is_set():
            if ready := self._connect():
                retry = FIRST_RETRY_S
                self._watch(ready)
            else:
                self._ended.wait(retry)
                retry = min(MAX_RETRY_S, 2 * retry)

    def _connect(self) -> HostReady | None:
        """Ask the host for its facts and end leftovers there; None where it cannot be used."""
        self._doubted.clear()
        self._end_leftovers()
        answer = self._ask(commands.facts(self.host))
        if answer.code != 0:
            cause = self._diagnosis(answer)
            self._post_lost(cause.message, hopeless=cause.hopeless)
            return None
        try:
            ready = self._examine(self.host, answer.out)
        except BenchfleetError as error:
            self._post_lost(str(error), hopeless=True)
            return None
        self._reported = ""
        self._post_unless_ended(ready)
        return ready

    def _watch(self, ready: HostReady) -> None:
        """Wait until the host is lost; where it was doubted without reason, post `ready` again."""
        while not self._ended.is_set():
            self._doubted.wait()
            self._doubted.clear()
            if self._ended.is_set():
                return
            answer = self._ask(commands.alive(self.host))
            if answer.code != 0:
                why = self._diagnosis(answer).message
                self._abandon(self.host, why)
                self._post_lost(why)
                return
            self._end_leftovers()
            self._post_unless_ended(ready)

    def _end_leftovers(self) -> None:
        """End there the slots whose end nobody saw."""
        self._leftovers += self._unseen(self.host)
        if self._leftovers and self._ask(commands.sweep(self.host, self._leftovers)).code == 0:
            self._leftovers.clear()

    def _diagnosis(self, answer: Answer) -> Diagnosis:
        host = self.host
        return diagnosis(answer.code, answer.err, jump=host.jump, python=host.python)

    def _ask(self, words: Sequence[str]) -> Answer:
        """Run it there. A host that does not answer is lost."""
        try:
            return ask(self._ssh, self.host, words, started=self._started)
        except BenchfleetError as error:  # no ssh here, or no process or file more for it
            return Answer(code=LOST, out="", err=str(error))
        finally:
            self._command = None

    def _started(self, command: subprocess.Popen[bytes]) -> None:
        self._command = command
        if self._ended.is_set():
            command.kill()

    def _post_lost(self, reason: str, *, hopeless: bool = False) -> None:
        """Post it once, not again at every try that fails alike."""
        if reason != self._reported:
            self._reported = reason
            self._post_unless_ended(HostLost(host=self.host.name, reason=reason, hopeless=hopeless))

    def _post_unless_ended(self, event: EngineEvent) -> None:
        if not self._ended.is_set():
            self._post(event)
