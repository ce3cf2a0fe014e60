"""Commands to the slots of a runner, its answers, and how both are written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from benchfleet.domain.event import Event
from benchfleet.domain.resource import Device, DeviceKind

Action = Literal["list", "add", "drain", "remove"]
ACTIONS: tuple[str, ...] = get_args(Action)[1:]  # those that name devices
REQUESTED, ANSWERED = "slots_asked", "slots_told"  # a command, and a runner's answer to it
ADDED, REMOVED, FREED = "slots_added", "slots_removed", "slots_freed"
BEGAN, ENDED = "runner_began", "runner_ended"

_DEVICE = re.compile(r"(?:(?P<host>[^/\s]+)/)?(?P<kind>gpu|cpu):(?P<index>\d{1,4})")
_NEAR_DEVICE = re.compile(r"(.*/)?(gpu|cpu|cuda)[:\s=]?\d*", re.IGNORECASE)


@dataclass(frozen=True, order=True)
class DeviceName:
    """The name of a device: ``gpu:3``, ``cpu:0``, ``lab2/gpu:1``."""

    host: str  # "" for the machine that the runner is on
    kind: DeviceKind
    index: int

    def __str__(self) -> str:
        return Device(kind=self.kind, index=self.index, host=self.host).label


def device_name(text: str) -> DeviceName:
    """Read ``gpu:3`` or ``lab2/gpu:1``. Raises ValueError."""
    match = _DEVICE.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid device {text!r}: write gpu:3, cpu:0 or lab2/gpu:1")
    kind: DeviceKind = "gpu" if match["kind"] == "gpu" else "cpu"
    return DeviceName(match["host"] or "", kind, int(match["index"]))


def device_names(label: str) -> tuple[DeviceName, ...]:
    """The devices of a slot: ``lab2/gpu:0+1`` has two. Raises ValueError where people cannot name
    them, as endpoints."""
    first, *more = label.split("+")
    head = first.rpartition(":")[0]
    return tuple(device_name(one) for one in (first, *(f"{head}:{index}" for index in more)))


def host_in(label: str) -> tuple[str, str]:
    """The host in the label of a slot's devices, and the label without it: ``lab2``, ``gpu:0+1``.
    The host is "" for the machine that the runner is on."""
    host, separator, devices = label.partition("/")
    return (host, devices) if separator else ("", label)


def looks_like_device(text: str) -> bool:
    """Whether the text is probably meant as a device."""
    return _NEAR_DEVICE.fullmatch(text) is not None


def name_of(device: Device) -> DeviceName:
    """The name of a device in commands."""
    return DeviceName(device.host, device.kind, device.index)


@dataclass(frozen=True, kw_only=True)
class SlotsCommand:
    """A person's command to a runner."""

    action: Action
    devices: tuple[DeviceName, ...] = ()
    now: bool = False  # running cells stop after the sample at hand
    request: int = 0  # the number of its event; 0 where it came from a file

    def event(self, runner: str) -> Event:
        """The ledger event that carries the command to a runner."""
        devices = [str(device) for device in self.devices]
        data = {"runner": runner, "action": self.action, "devices": devices, "now": self.now}
        return Event(kind=REQUESTED, data=data)


def command_from(event: Event) -> SlotsCommand:
    """The command that an event carries. Raises ValueError where it carries none."""
    data = event.data
    names = tuple(device_name(str(one)) for one in data.get("devices", ()))
    action = _action(data.get("action"))
    return SlotsCommand(action=action, devices=names, now=bool(data.get("now")), request=event.seq)


def parse_command(line: str) -> SlotsCommand | None:
    """The command in one line of a signal file, such as ``drain gpu:3 now``; None for none.

    Raises ValueError.
    """
    words = line.partition("#")[0].replace(",", " ").split()
    if not words:
        return None
    action, *rest = words
    if action not in ACTIONS:
        raise ValueError(f"invalid action {action!r}: use {', '.join(ACTIONS)}")
    now = action != "add" and rest[-1:] in (["now"], ["--now"])
    names = tuple(device_name(word) for word in (rest[:-1] if now else rest))
    if not names:
        raise ValueError(f"{action} names no device: write {action} gpu:3")
    return SlotsCommand(action=_action(action), devices=names, now=now)


def _action(text: object) -> Action:
    for action in get_args(Action):
        if text == action:
            return cast("Action", action)
    raise ValueError(f"unknown slots action: {text!r:.60}")


@dataclass(frozen=True, kw_only=True)
class SlotState:
    """A slot, or a device without one, as its runner reports it."""

    devices: str
    state: str  # starting, idle, load, benchmark; drained, removed, left alone, left out, free
    slot: str = ""
    cell: str = ""
    done: int = 0  # samples
    total: int = 0  # 0: not known
    seconds: float | None = None  # since the cell began


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A runner's answer to a command."""

    runner: str
    request: int  # the number of the event that it answers
    done: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    slots: tuple[SlotState, ...] = ()
    at: float = 0.0  # seconds since the epoch by the ledger's clock; 0 before it is recorded

    @property
    def verdict(self) -> str:
        """``accepted``, ``refused`` or ``partly refused``."""
        if not self.refused:
            return "accepted"
        return "partly refused" if self.done else "refused"

    def event(self) -> Event:
        data = {
            "runner": self.runner,
            "asked": self.request,
            "said": self.done,
            "refused": self.refused,
            "slots": [vars(slot) for slot in self.slots],
        }
        return Event(kind=ANSWERED, data=data)


def answer_of(event: Event) -> Answer:
    """Read the answer in an event."""
    data = event.data
    slots: Sequence[Mapping[str, Any]] = data["slots"]
    return Answer(
        runner=data["runner"],
        request=data["asked"],
        done=tuple(data["said"]),
        refused=tuple(data["refused"]),
        slots=tuple(SlotState(**slot) for slot in slots),
        at=event.at,
    )
