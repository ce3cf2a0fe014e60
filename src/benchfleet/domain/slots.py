"""What a person asks of the slots of a runner, what it answers, and how both are written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from benchfleet.domain.event import Event
from benchfleet.domain.resource import Device, DeviceKind

Action = Literal["list", "add", "drain", "remove"]
ACTIONS: tuple[str, ...] = get_args(Action)[1:]  # those that name devices
ASKED, TOLD = "slots_asked", "slots_told"  # an order, and a runner's answer to it
ADDED, REMOVED, FREED = "slots_added", "slots_removed", "slots_freed"
BEGAN, ENDED = "runner_began", "runner_ended"

_DEVICE = re.compile(r"(?:(?P<host>[^/\s]+)/)?(?P<kind>gpu|cpu):(?P<index>\d{1,4})")
_NEAR_DEVICE = re.compile(r"(.*/)?(gpu|cpu|cuda)[:\s=]?\d*", re.IGNORECASE)


@dataclass(frozen=True, order=True)
class DeviceName:
    """A device as people name it: ``gpu:3``, ``cpu:0``, ``lab2/gpu:1``."""

    host: str  # "" for the machine that the runner is on
    kind: DeviceKind
    index: int

    def __str__(self) -> str:
        return Device(kind=self.kind, index=self.index, host=self.host).label


def device_name(text: str) -> DeviceName:
    """Read ``gpu:3`` or ``lab2/gpu:1``. Raises ValueError."""
    found = _DEVICE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no device; write gpu:3, cpu:0 or lab2/gpu:1")
    kind: DeviceKind = "gpu" if found["kind"] == "gpu" else "cpu"
    return DeviceName(found["host"] or "", kind, int(found["index"]))


def looks_like_device(text: str) -> bool:
    """Whether somebody meant a device, well written or not."""
    return _NEAR_DEVICE.fullmatch(text) is not None


def name_of(device: Device) -> DeviceName:
    """How people and orders call a device."""
    return DeviceName(device.host, device.kind, device.index)


@dataclass(frozen=True, kw_only=True)
class SlotsCommand:
    """One thing that is asked of a runner."""

    action: Action
    devices: tuple[DeviceName, ...] = ()
    now: bool = False  # running cells stop after the sample at hand
    asked: int = 0  # the number of its event; 0 where it came from a file

    def event(self, runner: str) -> Event:
        """As the ledger carries it to a runner."""
        devices = [str(device) for device in self.devices]
        data = {"runner": runner, "action": self.action, "devices": devices, "now": self.now}
        return Event(kind=ASKED, data=data)


def command_from(event: Event) -> SlotsCommand:
    """The order that an event carries. Raises ValueError where it carries none."""
    data = event.data
    names = tuple(device_name(str(one)) for one in data.get("devices", ()))
    action = _action(data.get("action"))
    return SlotsCommand(action=action, devices=names, now=bool(data.get("now")), asked=event.seq)


def parse_command(line: str) -> SlotsCommand | None:
    """The order in one line of a signal file, such as ``drain gpu:3 now``; None where it has none.

    Raises ValueError.
    """
    words = line.partition("#")[0].replace(",", " ").split()
    if not words:
        return None
    action, *rest = words
    if action not in ACTIONS:
        raise ValueError(f"{action!r} is none of {', '.join(ACTIONS)}")
    now = action != "add" and rest[-1:] in (["now"], ["--now"])
    names = tuple(device_name(word) for word in (rest[:-1] if now else rest))
    if not names:
        raise ValueError(f"{action} what? write {action} gpu:3")
    return SlotsCommand(action=_action(action), devices=names, now=now)


def _action(text: object) -> Action:
    for action in get_args(Action):
        if text == action:
            return cast("Action", action)
    raise ValueError(f"nothing that slots are asked is called {text!r:.60}")


@dataclass(frozen=True, kw_only=True)
class SlotState:
    """A slot, or a device without one, as its runner tells of it."""

    devices: str
    state: str  # starting, idle, load, benchmark; drained, removed, left alone, left out, free
    slot: str = ""
    cell: str = ""
    done: int = 0  # samples
    total: int = 0  # 0: not known
    seconds: float | None = None  # since the cell began


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a runner says to an order."""

    runner: str
    asked: int
    said: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    slots: tuple[SlotState, ...] = ()

    def event(self) -> Event:
        data = {**vars(self), "slots": [vars(slot) for slot in self.slots]}
        return Event(kind=TOLD, data=data)


def answer_of(data: Mapping[str, Any]) -> Answer:
    """The answer that an event's data carry."""
    slots: Sequence[Mapping[str, Any]] = data["slots"]
    return Answer(
        runner=data["runner"],
        asked=data["asked"],
        said=tuple(data["said"]),
        refused=tuple(data["refused"]),
        slots=tuple(SlotState(**slot) for slot in slots),
    )
