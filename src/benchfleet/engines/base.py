"""The engine contract: where slots run, and the events that they cause.

An engine opens slots, each one process bound to its devices for life. It sends a slot one request
at a time and posts all that happens as a `SlotEvent` to the runner's event queue. The author of a
new engine reads this file and `frames.py`, and tests it with `benchfleet.testing.EngineContract`.

* `open` returns at once. `SlotReady` follows when the slot said hello, or `SlotLost`.
* `run` needs a slot that is ready and idle. `Started`, any number of `Progressed`, `Calling`,
  `Measured`, `Warned`, `Recorded` and `FileSent` follow, then exactly one of `Done`, `Failed`,
  `Stopped` or `SlotLost`. `Measured` may come before `Started`.
* `stop` asks the running request to end after the current sample: `Stopped` follows (or `Done`).
  `close` ends an idle slot cleanly; `kill` ends a slot and its whole process tree now. `SlotLost`
  follows both, with ``expected`` set.
* Events of one slot come in their order. Nothing follows its `SlotLost`.
* The engine pings its slots; a slot that receives nothing from its engine ends itself.
* `shutdown` ends all slots and returns when none is left.

An engine for other machines names them in `hosts` and keeps trying to connect to each. `HostReady`
follows when its devices can be used. `HostLost` follows when the connection fails or is lost, after
a `SlotLost` with ``host_lost`` for every slot on it. A lost host may become ready again; until
then the runner opens no slot there. Slots on one host never wait for another host.

An engine never retries a request: the runner decides, and the ledger alone holds the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NewType, Protocol

from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure, Kind, Stage
from benchfleet.domain.resource import Device
from benchfleet.domain.telemetry import Reading
from benchfleet.domain.usage import Price

SlotId = NewType("SlotId", str)


@dataclass(frozen=True, kw_only=True)
class SlotSpec:
    """A slot to open: its devices, and its share of the machine."""

    slot: SlotId
    devices: tuple[Device, ...]  # all of one host
    threads: int  # OMP_NUM_THREADS and its like
    log: str  # the file here that takes what it prints between cells
    python: str = ""  # interpreter; "" for the engine's own
    memory: int = 0  # bytes that are to be free on each of its GPUs; 0: not stated
    neighbours: int = 0  # slots of the same run that are on them already

    @property
    def host(self) -> str:
        """Where it runs; ``""`` for this machine."""
        return self.devices[0].host


@dataclass(frozen=True, kw_only=True)
class AttemptRequest:
    """One attempt for a slot to run."""

    attempt: str  # <fingerprint>/<attempt>-<token>
    cell: Cell
    log: str  # the file here that takes what the cell prints
    recorded: bytes = b""  # samples of an earlier attempt, as JSON lines
    batch_size: int = 0  # the effective one; 0: as declared
    rescore: bool = False  # score what was recorded; no model is loaded, and none is asked
    trial: bool = False  # load the model and ask it once, and no more


@dataclass(frozen=True, kw_only=True)
class SlotEvent:
    """Something that a slot reported, or that its engine observed."""

    slot: SlotId


@dataclass(frozen=True, kw_only=True)
class SlotReady(SlotEvent):
    """The slot is up. `hello` has its pid, host and versions."""

    hello: Mapping[str, Any]
    loaded: str = ""  # the load key of the model that a trial left in memory


@dataclass(frozen=True, kw_only=True)
class SlotQuiet(SlotEvent):
    """The slot has been silent for two heartbeats, and does not compute. It may wait for a slow
    disk, so it is ended only where it stays silent."""

    ended_at: float  # seconds of silence


@dataclass(frozen=True, kw_only=True)
class SlotLost(SlotEvent):
    """The slot's process is gone; the slot's last event."""

    reason: str  # "exit code 3", "killed by signal 9 (SIGKILL)", "silent for 20 s"
    expected: bool = False  # by `close`, `kill` or `shutdown`
    exit_code: int | None = None  # negative: the signal that ended it
    host_lost: bool = False  # nothing is known of it, since its host cannot be reached
    kind: Kind | None = None  # why its supervisor ended it
    unfit: tuple[int, ...] = ()  # those of its GPUs for which it did not start
    trial: str = ""  # why its trial of a model failed
    busy: bool = False  # its GPUs are well: somebody else computes there


@dataclass(frozen=True, kw_only=True)
class AttemptEvent(SlotEvent):
    """Something about the attempt that the slot runs."""

    attempt: str


@dataclass(frozen=True, kw_only=True)
class Started(AttemptEvent):
    """A stage began: ``provision`` (files are sent to its host), ``load`` (the model is loaded)
    or ``benchmark``."""

    stage: Stage


@dataclass(frozen=True, kw_only=True)
class Progressed(AttemptEvent):
    """The progress of a benchmark, in samples."""

    done: int
    total: int  # 0: not known


@dataclass(frozen=True, kw_only=True)
class Calling(AttemptEvent):
    """A call of the model began or, with no prompts, ended. Sent only for cells whose calls have a
    time limit."""

    count: int  # prompts
    sample: int | None = None  # the first of them, where it is known


@dataclass(frozen=True, kw_only=True)
class Recorded(AttemptEvent):
    """Samples, as JSON lines. The runner stores them before anything else."""

    lines: bytes
    done: int
    total: int  # 0: not known
    tokens: tuple[int, int] = (0, 0)  # of prompt and answer; 0: not known


@dataclass(frozen=True, kw_only=True)
class Measured(AttemptEvent):
    """Memory, CPU time and GPU load of the slot; no sign that the cell makes progress."""

    reading: Reading


@dataclass(frozen=True, kw_only=True)
class Warned(AttemptEvent):
    """A problem that does not end the attempt."""

    message: str


@dataclass(frozen=True, kw_only=True)
class FileSent(AttemptEvent):
    """A piece of a result file; pieces of one file come in order."""

    name: str
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Done(AttemptEvent):
    """The attempt succeeded."""

    score: Mapping[str, Any]  # overall, per_sample, tasks, summary
    seconds: Mapping[str, float] = field(default_factory=dict)  # load, benchmark
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Failed(AttemptEvent):
    """The attempt failed."""

    failure: Failure
    fit: bool = True  # False: the slot takes no other request and ends
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Stopped(AttemptEvent):
    """The attempt ended without a verdict: it was asked to stop, or this slot could not run it. Its
    samples are kept."""

    reason: str
    fit: bool = True  # False: the slot takes no other request and ends


@dataclass(frozen=True, kw_only=True)
class HostEvent:
    """Something about a host of the engine."""

    host: str  # its name, as in `Device.host`


@dataclass(frozen=True, kw_only=True)
class HostReady(HostEvent):
    """Slots can be opened on the host."""

    devices: tuple[Device, ...]
    slots: int  # at most, over all its devices
    threads: int  # for each slot
    begin: int = 0  # in each memory at first, and more as there is room; 0: all at once
    price: Price | None = None  # of it, or of each of its GPUs
    provenance: Mapping[str, Any] = field(default_factory=dict)  # of every result made there
    spare: tuple[Device, ...] = ()  # of the same kind, which its inventory excludes


@dataclass(frozen=True, kw_only=True)
class HostLost(HostEvent):
    """The host cannot be used now."""

    reason: str
    hopeless: bool = False  # until somebody fixes something; the engine tries all the same


EngineEvent = SlotEvent | HostEvent
Post = Callable[[EngineEvent], None]


class Engine(Protocol):
    """Where slots run; see the module for the whole contract."""

    def open(self, spec: SlotSpec) -> None: ...

    def run(self, slot: SlotId, request: AttemptRequest) -> None: ...

    def stop(self, slot: SlotId, attempt: str) -> None: ...

    def close(self, slot: SlotId) -> None: ...

    def kill(self, slot: SlotId) -> None: ...

    def shutdown(self) -> None: ...

    def slots(self) -> Sequence[SlotId]: ...

    def hosts(self) -> Sequence[str]: ...
