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
* The runner decides on retries; an engine never retries a request.

An engine for other machines names them in `hosts` and keeps trying to connect to each. `HostReady`
follows when its devices can be used. `HostLost` follows when the connection fails or is lost, after
a `SlotLost` with ``host_lost`` for every slot on it. A lost host may become ready again; until
then the runner opens no slot there. Slots on one host never wait for another host.

Hosts may also join and leave at any time: a `HostReady` may have a name that is new, and a
`HostLost` with ``removed`` says that the name never comes back. `HostAwaited` says that hosts may
still join, so that cells wait for them; a `HostLost` with ``removed`` of that name ends it.

Threads. All methods may be called from any thread, also from within `post`. `post` may be called
from any thread of the engine. No method raises for a slot that cannot start, is lost or is closed:
`SlotLost` says that a slot cannot start, and the other calls do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NewType, Protocol

from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure, Kind, Stage
from benchfleet.domain.hardware import MachineHardware
from benchfleet.domain.resource import Device, Need
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
    memory: int = 0  # bytes that must be free on each GPU for the slot to start; 0: not stated
    neighbours: int = 0  # open slots of this run on the same devices

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
    """The slot sent nothing for two heartbeats and used no CPU time. It may wait for a slow disk,
    so the engine ends it only after a longer silence."""

    ended_at: float  # seconds of silence, from its start, after which the engine ends the slot


@dataclass(frozen=True, kw_only=True)
class SlotLost(SlotEvent):
    """The slot's process is gone; the slot's last event."""

    reason: str  # "exit code 3", "killed by signal 9 (SIGKILL)", "silent for 20 s"
    expected: bool = False  # True: caused by `close`, `kill` or `shutdown`
    exit_code: int | None = None  # negative: the signal that ended it
    host_lost: bool = False  # True: its host cannot be reached; the process may still run
    kind: Kind | None = None  # why its supervisor ended it
    unfit: tuple[int, ...] = ()  # indices of GPUs that failed the check at the slot's start
    trial: str = ""  # why the check that loads a model before the first cell failed; "": it did not
    busy: bool = False  # True: the `unfit` GPUs work, but others use them; the runner retries later


@dataclass(frozen=True, kw_only=True)
class AttemptEvent(SlotEvent):
    """Something about the attempt that the slot runs."""

    attempt: str


@dataclass(frozen=True, kw_only=True)
class Started(AttemptEvent):
    """A stage began: ``provision`` (sending files), ``pull``, ``load`` or ``benchmark``."""

    stage: Stage
    limit: float | None = None  # seconds that it may take; None: no limit of its own


@dataclass(frozen=True, kw_only=True)
class Progressed(AttemptEvent):
    """The progress of a benchmark, in samples."""

    done: int
    total: int  # 0: not known


@dataclass(frozen=True, kw_only=True)
class Checkpointed(AttemptEvent):
    """Numbers of what was measured so far; those of the cell if it ends early."""

    metrics: Mapping[str, float]


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
    begin: int = 0  # slots at first in each memory (a GPU's, or RAM); more if it has room; 0: all
    price: Price | None = None  # of the host, or of each of its GPUs
    provenance: Mapping[str, Any] = field(default_factory=dict)  # of every result made there
    spare: tuple[Device, ...] = ()  # excluded by the inventory; a user may add them during the run
    rented: MachineHardware | None = None  # what it was rented as


@dataclass(frozen=True, kw_only=True)
class HostLost(HostEvent):
    """The host cannot be used now."""

    reason: str
    hopeless: bool = False  # True: somebody must fix it, so no run waits for it; engine retries
    removed: bool = False  # True: it never comes back under this name, so the runner forgets it
    failure: Failure | None = None  # cells that no other machine can take end with it


@dataclass(frozen=True, kw_only=True)
class HostAwaited(HostEvent):
    """Hosts that are not known yet may join; `host` stands for all of them."""

    reason: str  # why they are not here yet
    machines: tuple[MachineHardware, ...] = ()  # what they may have; (): anything
    bounded: bool = False  # True: the engine ends the wait itself, however long it takes


EngineEvent = SlotEvent | HostEvent
Post = Callable[[EngineEvent], None]


class Engine(Protocol):
    """Where slots run; see the module for the whole contract."""

    def open(self, spec: SlotSpec) -> None:
        """Start the slot's process. Returns at once."""
        ...

    def run(self, slot: SlotId, request: AttemptRequest) -> None:
        """Send the request to a slot that is ready and idle."""
        ...

    def stop(self, slot: SlotId, attempt: str) -> None:
        """Ask the slot to end this attempt after the current sample."""
        ...

    def close(self, slot: SlotId) -> None:
        """End an idle slot cleanly."""
        ...

    def kill(self, slot: SlotId) -> None:
        """End the slot and its whole process tree now."""
        ...

    def expect(self, waiting: Mapping[Need, int]) -> None:
        """How many cells wait for a slot now, by what they need. The runner says so before the
        first slot is opened, and then every few seconds. An engine that can get machines, or give
        them back, goes by it."""
        ...

    def shutdown(self) -> None:
        """End all slots. Returns when none is left."""
        ...

    def slots(self) -> Sequence[SlotId]:
        """The slots that were opened and are not lost, in no fixed order."""
        ...

    def hosts(self) -> Sequence[str]:
        """All other machines that the engine knows now, reachable or not, in no fixed order; others
        may join. The runner asks once, before the first slot. Empty if slots run on this machine
        only."""
        ...
