"""A rented machine in virtual time: what SSH finds there, and the slots that run on it.

`trouble` is what goes wrong with it; see `MACHINE_TROUBLES`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchfleet.domain.failure import Failure, Kind
from benchfleet.domain.host import Host
from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    AttemptRequest,
    Done,
    EngineEvent,
    Failed,
    HostLost,
    HostReady,
    Recorded,
    SlotEvent,
    SlotId,
    SlotLost,
    SlotReady,
    SlotSpec,
    Started,
    Stopped,
)
from benchfleet.engines.openssh import LOST
from benchfleet.engines.ssh_command import Answer
from benchfleet.testing.simulated_cloud import CloudInstance
from simulation.turns import Turns

SAMPLES, EACH_S, LOAD_S = 10, 30.0, 100.0
NOTICED_S = 20.0  # until a lost connection is noticed
MACHINE_TROUBLES = (  # of a machine
    *("stopped", "never_runs", "no_login", "slow_login", "key_refused", "wrong_gpu", "small_gpu"),
    *("busy_gpu", "no_driver", "no_timer", "no_install", "price_rose", "stopped_at_work"),
)
LOADING: Mapping[str, Kind] = {"oom": "oom", "server_died": "server_died"}
CELL_TROUBLES = (*LOADING, "stuck", "slot_lost", "no_result")  # of an attempt


@dataclass
class Machine:
    """What is behind an instance."""

    one: CloudInstance
    began: float
    timed: bool  # its start script arms a dead-man timer
    trouble: str = ""
    commands: list[Sequence[str]] = field(default_factory=list)
    slots: SimulatedSlots | None = None

    def answer(self, words: Sequence[str], now: float) -> Answer:
        """What a command gives."""
        self.commands.append(words)
        boot = {"slow_login": 900.0, "no_login": 1e9}.get(self.trouble, 30.0)
        if not self.one.lives or self.one.state != "running" or now - self.began < boot:
            return Answer(code=LOST, out="", err="ssh: connect to host: Connection refused")
        if self.trouble == "key_refused":
            return Answer(code=LOST, out="", err="root@host: Permission denied (publickey).")
        match words[0]:
            case "echo":
                return Answer(code=0, out=f"{words[1]}\n", err="")
            case "nvidia-smi":
                return self._smi()
            case "cat":
                armed = self.timed and self.trouble != "no_timer"
                return Answer(code=0 if armed else 1, out="", err="")
            case "uname":
                return Answer(code=0, out="Linux 6.8.0\n", err="")
            case "sh":
                row = f"eth0: {self.one.traffic} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
                return Answer(code=0, out=f"Inter-| Receive | Transmit\n{row}", err="")
        return Answer(code=0, out="", err="")

    def _smi(self) -> Answer:
        if self.trouble == "no_driver":
            return Answer(code=127, out="", err="sh: nvidia-smi: not found")
        gpu = "GTX 1080" if self.trouble == "wrong_gpu" else self.one.offer.gpu
        size = (self.one.offer.vram >> 20) // (2 if self.trouble == "small_gpu" else 1)
        used = 9000 if self.trouble == "busy_gpu" else 3
        row = f"NVIDIA GeForce {gpu}, {size}, {used}, 560.35.03, GPU-{self.one.id}\n"
        return Answer(code=0, out=row, err="")


class SimulatedSlots:
    """One slot on a machine, in the place of `SshEngine`."""

    def __init__(
        self,
        post: Callable[[EngineEvent], None],
        turns: Turns,
        machine: Machine,
        host: Host,
        trouble_of: Callable[[AttemptRequest], str],
        each_s: float,
    ) -> None:
        self.post, self._turns, self._machine, self._name = post, turns, machine, host.name
        self._trouble_of, self._each_s = trouble_of, each_s
        self._specs: dict[SlotId, SlotSpec] = {}
        self._attempt = ""  # which the slot runs
        machine.slots = self
        gpu = Device(
            kind="gpu", index=0, host=host.name, memory=machine.one.offer.vram,
            name=f"NVIDIA GeForce {machine.one.offer.gpu}",
        )  # fmt: skip
        ready = HostReady(host=host.name, devices=(gpu,), slots=1, threads=1, price=host.price)
        turns.later(1.0, lambda: post(ready))

    def slots(self) -> Sequence[SlotId]:
        return list(self._specs)

    def open(self, spec: SlotSpec) -> None:
        self._specs[spec.slot] = spec
        hello = {"slot": spec.slot, "cell": "", "pid": 1}
        self._later(5.0, spec.slot, SlotReady(slot=spec.slot, hello=hello))

    def run(self, slot: SlotId, request: AttemptRequest) -> None:
        self._attempt = key = request.attempt
        trouble, begun = self._trouble_of(request), LOAD_S
        self._later(0.0, slot, Started(slot=slot, attempt=key, stage="load"))
        if trouble in LOADING:
            kind = LOADING[trouble]
            failure = Failure(stage="load", kind=kind, message="injected", retryable=True)
            self._later(20.0, slot, Failed(slot=slot, attempt=key, failure=failure))
            return
        self._later(begun, slot, Started(slot=slot, attempt=key, stage="benchmark"))
        known = {json.loads(line)["index"] for line in request.recorded.splitlines()}
        if trouble == "stuck":
            return
        missing = [index for index in range(SAMPLES) if index not in known]
        if trouble:
            missing = missing[: len(missing) // 2]
        for number, index in enumerate(missing):
            line = {"index": index, "id": f"s{index}", "columns": {}, "predicted_answer": "x"}
            sent = Recorded(
                slot=slot, attempt=key, lines=json.dumps(line).encode() + b"\n",
                done=len(known) + number + 1, total=SAMPLES,
            )  # fmt: skip
            self._later(begun + self._each_s * (number + 1), slot, sent)
        end = begun + self._each_s * len(missing) + 1.0
        if trouble == "stopped_at_work":
            self._turns.later(end, self._stop_machine)
        elif trouble:  # it ends before its result came
            code = 0 if trouble == "no_result" else -9
            self._later(end, slot, SlotLost(slot=slot, reason="it ended", exit_code=code))
        else:
            score = {
                "overall": 1.0, "per_sample": [1.0] * SAMPLES, "tasks": {},
                "summary": {"output_tokens_per_second": 50.0, "total_requests": SAMPLES},
            }  # fmt: skip
            seconds = {"load": begun, "benchmark": end - begun}
            self._later(end, slot, Done(slot=slot, attempt=key, score=score, seconds=seconds))

    def _stop_machine(self) -> None:
        self._machine.one.state = "stopped"
        self._turns.later(NOTICED_S, self.cut)

    def cut(self) -> None:
        """The connection is lost."""
        for slot in list(self._specs):
            self._end(SlotLost(slot=slot, reason="connection lost", host_lost=True))
        self.post(HostLost(host=self._name, reason="connection lost"))

    def stop(self, slot: SlotId, attempt: str) -> None:
        if attempt == self._attempt:
            self._attempt = ""
            self._later(0.5, slot, Stopped(slot=slot, attempt=attempt, reason="asked to"))

    def close(self, slot: SlotId) -> None:
        lost = SlotLost(slot=slot, reason="exit code 0", expected=True, exit_code=0)
        self._later(0.2, slot, lost)

    kill = close

    def expect(self, waiting: Any) -> None: ...

    def hosts(self) -> Sequence[str]:
        return [self._name]

    def shutdown(self) -> None:
        for slot in list(self._specs):
            self._end(SlotLost(slot=slot, reason="shutdown", expected=True))

    def _later(self, seconds: float, slot: SlotId, event: SlotEvent) -> None:
        def post() -> None:
            attempt = getattr(event, "attempt", self._attempt)
            stopped = isinstance(event, Stopped)
            if slot in self._specs and (attempt == self._attempt or stopped):
                self._end(event) if isinstance(event, SlotLost) else self.post(event)

        self._turns.later(seconds, post)

    def _end(self, event: SlotLost) -> None:
        if self._specs.pop(event.slot, None) is not None:
            self._attempt = ""
            self.post(event)


def folder_of_keys(folder: Path) -> Path:
    """A folder as `campaign_key` makes it."""
    keys = folder / "rented"
    keys.mkdir(parents=True)
    (keys / "key").write_text("private")
    (keys / "key.pub").write_text("ssh-ed25519 AAAA\n")
    return folder
