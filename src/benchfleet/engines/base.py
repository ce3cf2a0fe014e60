"""The engine contract: where slots run, and what they tell.

An engine opens slots, each one process bound to its devices for life, hands them one order at a
time and posts everything that happens as a `SlotEvent` to the one queue of the runner. Whoever
writes a new engine reads this file and `frames.py`, and proves it with
`benchfleet.testing.EngineContract`.

* `open` returns at once. `SlotReady` follows when the slot said hello, or `SlotLost`.
* `run` is for a slot that is ready and idle. `Started`, any number of `Progressed`, `Calling`,
  `Measured`, `Warned`, `Recorded` and `FileSent`, then exactly one of `Done`, `Failed`, `Stopped`,
  or `SlotLost`. `Measured` may come before `Started`.
* `stop` asks the running order to end after the sample at hand: `Stopped` follows (or `Done`,
  where it was faster). `close` ends an idle slot in good order; `kill` ends a slot and its whole
  process tree now. `SlotLost` follows each of the two, with ``expected`` set.
* Events of one slot come in their order. After `SlotLost` nothing more comes from it.
* A slot that hears nothing from its engine ends itself; the engine sends the pings.
* `shutdown` ends all slots and returns when none is left.

An engine that reaches other machines names them by `hosts`, and goes on trying to reach each:
`HostReady` follows when its devices can be used, and `HostLost` when it could not be reached, or
cannot be any more; first every slot on it is lost, with ``host_lost`` set. A host may be ready
again after that. After a slot lost so, one of the two says what holds of its host; until then
none is to be opened there. Slots on one host never wait for another host.

Nothing here runs an order again: the runner decides, and the ledger alone holds the truth.
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
class Order:
    """One attempt to run in a slot."""

    attempt: str  # <fingerprint>/<attempt>-<token>
    cell: Cell
    log: str  # the file here that takes what the cell prints
    recorded: bytes = b""  # samples of an earlier attempt, as JSON lines
    batch_size: int = 0  # the effective one; 0: as declared
    rescore: bool = False  # score what was recorded; no model is loaded, and none is asked
    trial: bool = False  # load the model and ask it once, and no more


@dataclass(frozen=True, kw_only=True)
class SlotEvent:
    """Something a slot said, or that was seen of it."""

    slot: SlotId


@dataclass(frozen=True, kw_only=True)
class SlotReady(SlotEvent):
    """It is up; what it is: pid, host, versions."""

    hello: Mapping[str, Any]
    loaded: str = ""  # the load key of the model that a trial left in its memory


@dataclass(frozen=True, kw_only=True)
class SlotQuiet(SlotEvent):
    """Nothing was heard of it for two heartbeats, and it does not compute. It may wait for a disk,
    with all else held up, so that it is ended only where it stays so."""

    ended_at: float  # seconds of silence


@dataclass(frozen=True, kw_only=True)
class SlotLost(SlotEvent):
    """Its process is gone."""

    reason: str  # "exit code 3", "killed by signal 9 (SIGKILL)", "silent for 20 s"
    expected: bool = False  # it was told to end
    exit_code: int | None = None  # negative: the signal that ended it
    host_lost: bool = False  # nothing is known of it, because its host cannot be reached
    kind: Kind | None = None  # what ended it, where its supervisor saw that
    unfit: tuple[int, ...] = ()  # those of its GPUs for which it did not start
    trial: str = ""  # why the model that it was to try does not run there
    busy: bool = False  # nothing is wrong with them: somebody else computes there


@dataclass(frozen=True, kw_only=True)
class AttemptEvent(SlotEvent):
    """Something about the attempt that the slot runs."""

    attempt: str


@dataclass(frozen=True, kw_only=True)
class Started(AttemptEvent):
    """A stage began: ``provision`` (what it needs is brought to its host), ``load`` (the model
    comes into memory) or ``benchmark``."""

    stage: Stage


@dataclass(frozen=True, kw_only=True)
class Progressed(AttemptEvent):
    """How far it is."""

    done: int
    total: int  # 0: not known


@dataclass(frozen=True, kw_only=True)
class Calling(AttemptEvent):
    """A call of the model began or, where it has no prompts, ended. Told of cells alone whose
    calls have a limit of time."""

    count: int  # prompts
    sample: int | None = None  # the first of them, where it is known


@dataclass(frozen=True, kw_only=True)
class Recorded(AttemptEvent):
    """Samples, as JSON lines: to be kept before anything else happens to them."""

    lines: bytes
    done: int
    total: int  # 0: not known
    tokens: tuple[int, int] = (0, 0)  # of prompt and answer; 0: not known


@dataclass(frozen=True, kw_only=True)
class Measured(AttemptEvent):
    """What the slot holds and its GPUs do; no sign that the cell goes on."""

    reading: Reading


@dataclass(frozen=True, kw_only=True)
class Warned(AttemptEvent):
    """Something is wrong that does not end it."""

    message: str


@dataclass(frozen=True, kw_only=True)
class FileSent(AttemptEvent):
    """A piece of a result file; pieces of one file come in order."""

    name: str
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Done(AttemptEvent):
    """It ended well."""

    score: Mapping[str, Any]  # overall, per_sample, tasks, summary
    seconds: Mapping[str, float] = field(default_factory=dict)  # load, benchmark
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Failed(AttemptEvent):
    """It ended badly."""

    failure: Failure
    fit: bool = True  # False: the slot takes no other order and ends
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Stopped(AttemptEvent):
    """It ended without a verdict, because it was asked to or could not be taken here; its samples
    are kept."""

    reason: str
    fit: bool = True  # False: the slot takes no other order and ends


@dataclass(frozen=True, kw_only=True)
class HostEvent:
    """Something about a machine that an engine reaches."""

    host: str  # its name, as in `Device.host`


@dataclass(frozen=True, kw_only=True)
class HostReady(HostEvent):
    """Slots can be opened on it."""

    devices: tuple[Device, ...]
    slots: int  # at most, over all its devices
    threads: int  # for each slot
    begin: int = 0  # in each memory at first, and more as there is room; 0: all at once
    price: Price | None = None  # of it, or of each of its GPUs
    provenance: Mapping[str, Any] = field(default_factory=dict)  # of every result made there
    spare: tuple[Device, ...] = ()  # of the same kind, which its inventory leaves to others


@dataclass(frozen=True, kw_only=True)
class HostLost(HostEvent):
    """It cannot be used now."""

    reason: str
    hopeless: bool = False  # until somebody mends something; the engine tries on all the same


EngineEvent = SlotEvent | HostEvent
Post = Callable[[EngineEvent], None]


class Engine(Protocol):
    """Where slots run; see the module for the whole contract."""

    def open(self, spec: SlotSpec) -> None: ...

    def run(self, slot: SlotId, order: Order) -> None: ...

    def stop(self, slot: SlotId, attempt: str) -> None: ...

    def close(self, slot: SlotId) -> None: ...

    def kill(self, slot: SlotId) -> None: ...

    def shutdown(self) -> None: ...

    def slots(self) -> Sequence[SlotId]: ...

    def hosts(self) -> Sequence[str]: ...
