"""The entry of one host in an inventory: what may be written of it, and the `Host` it becomes.

Whatever ends up on a command line of ssh is refused here where an option or a shell could be
seen in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from benchfleet.domain.host import AUTO, Host
from benchfleet.domain.names import path_part

from .base import absolute
from .entry import Entry
from .schema_types import (
    NAME,
    PRICE,
    SLOTS,
    TEXT,
    Shape,
    doc,
    listing,
    named,
    one_or_list,
    whole,
)

LOCAL_HOST = "here"  # this machine, beside the hosts
_WORD = r"\w[\w.+-]*"
_USER = r"\w[\w.@+\\-]*"
_ADDRESS = r"[\w\[][\w.:\[\]-]*"
_NAMED = re.compile(_WORD)
_USED = re.compile(_USER)
# With or without the brackets of an IPv6 address; after %: its interface.
_ADDRESSED = re.compile(r"(\[)?(?P<bare>[\w:][\w.:-]*(?:%\w+)?)(?(1)\])")
_JUMPED = re.compile(rf"(?:{_USER}@)?{_ADDRESS}")
_FAR = re.compile(r"(?:~/|/)[^\x00-\x1f\x7f]*")
_PROGRAM = re.compile(r"(?:~/|/|[\w.])[^\x00-\x1f\x7f]*")

SHARED: Mapping[str, Shape] = {
    "user": doc(TEXT, "as whom to log in (as ssh's configuration says)"),
    "port": doc(whole(most=65_535), "of its ssh server (as ssh's configuration says)"),
    "jump": doc(TEXT, "[USER@]HOST[:PORT] to go through, more after commas, as ssh's -J"),
    "identity": doc(TEXT, "the file of a private key (as ssh's configuration says)"),
    "python": doc(TEXT, "its interpreter with benchfleet (the one that 'hosts bootstrap' makes)"),
    "folder": doc(TEXT, f"where benchfleet keeps what it needs there ({Host.folder})"),
    "gpus": doc(listing(whole(0), least=1), "the GPUs to use (all that it has)"),
    "cpu_slots": doc(SLOTS, "slots without a GPU, or auto, instead of its GPUs"),
    "slots_per_gpu": doc(SLOTS, "slots that share a GPU, or auto (1)"),
    "price": doc(PRICE, "of an hour of it, such as 0.39 EUR/h, or of each GPU, as $1/gpu/h"),
    "labels": doc(one_or_list(NAME), "words by which --hosts chooses it"),
    "paths": doc(named(TEXT, TEXT), "folders here, each with the folder that it is there"),
}
KEYS: Mapping[str, Shape] = {
    "address": doc(TEXT, "what to connect to, also a name that ssh's configuration knows (NAME)"),
    **SHARED,
}
LISTED: Mapping[str, Shape] = {
    "name": doc(NAME, "how results and options call it (as 'hostname')"),
    "hostname": doc(TEXT, "what to connect to"),
    **KEYS,
}


def host_name(entry: Entry, text: str) -> str:
    """The name, or ``""`` with a mistake where folders or options could not bear it."""
    if text.casefold() == LOCAL_HOST:
        entry.wrong(f"{text!r} is this machine; call the host something else")
    elif not _NAMED.fullmatch(text):
        entry.wrong(
            f"{text!r} names no host: a name begins with a letter or digit and holds only those "
            "and . _ + -; give what to connect to under 'address'"
        )
    else:
        try:
            return path_part(text)
        except ValueError as error:
            entry.wrong(str(error))
    return ""


def read_host(
    name: str, fields: Mapping[str, Entry], defaults: Mapping[str, Entry], folder: Path
) -> Host:
    """The host that `fields` say, and `defaults` where they say nothing; what is wrong is noted.

    Relative paths of this machine start at `folder`.
    """
    devices = [fields[key] for key in ("gpus", "cpu_slots")]
    if all(entry.absent for entry in devices):
        devices = [defaults[key] for key in ("gpus", "cpu_slots")]
    merged = {
        key: defaults[key] if entry.absent and key in defaults else entry
        for key, entry in fields.items()
    }
    gpus, cpu_slots = devices
    per_gpu = merged["slots_per_gpu"]
    if not gpus.absent and not cpu_slots.absent:
        cpu_slots.wrong("stands beside 'gpus'; a host has slots on one of the two, so remove one")
    return Host(
        name=name,
        address=_address(merged["address"]),
        user=_matched_text(merged["user"], _USED, "the name of a user, such as lab"),
        port=None if merged["port"].absent else merged["port"].whole(22, most=65_535),
        jump=_jump(merged["jump"]),
        identity=_identity(merged["identity"], folder),
        python=_matched_text(
            merged["python"], _PROGRAM, "an interpreter there: python3, /… or ~/…"
        ),
        folder=_matched_text(merged["folder"], _FAR, "a folder there: /… or ~/…") or Host.folder,
        gpus=read_gpus(gpus),
        cpu_slots=None if cpu_slots.absent else cpu_slots.slots(AUTO),
        slots_per_gpu=1 if per_gpu.absent else per_gpu.slots(AUTO),
        price=merged["price"].price(),
        labels=frozenset(
            _matched_text(item, _NAMED, "a word of letters, digits and . _ + -")
            for item in merged["labels"].items(single=True)
        ),
        paths=_paths(merged["paths"], folder),
    )


def _matched_text(entry: Entry, pattern: re.Pattern[str], expected: str) -> str:
    text = entry.text()
    if not entry.absent and entry.right and not pattern.fullmatch(text):
        entry.wrong(f"must be {expected}, not {text!r}")
        return ""
    return text


def _address(entry: Entry) -> str:
    """As ssh takes it, which wants no brackets."""
    text = _matched_text(entry, _ADDRESSED, "an address or a name, such as 192.168.1.20")
    match = _ADDRESSED.fullmatch(text)
    return match["bare"] if match else ""


def _jump(entry: Entry) -> str:
    parts = [part.strip().removeprefix("ssh://") for part in entry.text().split(",")]
    if entry.text() and not all(_JUMPED.fullmatch(part) for part in parts):
        entry.wrong(f"must be [USER@]HOST[:PORT], more after commas, not {entry.text()!r}")
    return ",".join(parts)


def _identity(entry: Entry, folder: Path) -> str:
    if not entry.text():
        return ""
    file = absolute(folder, entry.text())
    if not file.is_file():
        entry.wrong(f"file {file} not found; name the file of a private key")
    return str(file)


def read_gpus(entry: Entry) -> tuple[int, ...] | None:
    """The GPU ids; None without any."""
    ids = [item.whole(0, least=0) for item in entry.items()]
    if not ids and not entry.absent and entry.right:
        entry.wrong("names no GPU; leave it out for all, or write cpu_slots for none")
    if entry.right and len(set(ids)) != len(ids):
        entry.wrong("names a GPU twice; slots_per_gpu makes slots share one")
    return tuple(ids) if ids else None


def _paths(entry: Entry, folder: Path) -> dict[str, str]:
    return {
        str(absolute(folder, local)): _matched_text(remote, _FAR, "a folder there: /… or ~/…")
        for local, remote in entry.pairs("a mapping of folders here to folders there")
    }
