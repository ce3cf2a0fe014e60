"""The inventory: a file that names the machines to run on, read and checked as campaigns are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from benchfleet import registry
from benchfleet.domain.engine_choice import EngineChoice
from benchfleet.domain.host import Host
from benchfleet.domain.name_patterns import matches
from benchfleet.domain.rent import ProviderAccess, RentEntry
from benchfleet.errors import CampaignError, Mistake, wrong_option

from . import hosts, rent
from .base import Machine
from .engines import ENGINES, read_engines
from .entry import Entry, Mistakes
from .hosts import LOCAL_HOST, host_name, read_host
from .load import MACHINE, Reader, read_machine, read_source
from .schema_types import NAME, Shape, doc, either, listing, mapping, named, nullable
from .source import Source
from .toml_reader import read_toml
from .yaml_reader import read_yaml

_LISTED = listing(either(NAME, mapping(hosts.LISTED)))
_NAMED = named(nullable(mapping(hosts.KEYS)), NAME)
KEYS: Mapping[str, Shape] = {
    "here": doc(mapping(MACHINE), "this machine takes part too, with these (it does not)"),
    "defaults": doc(mapping(hosts.SHARED), "what holds where a host says nothing else"),
    "hosts": doc(either(_NAMED, _LISTED), "the machines to reach over SSH, by name"),
    "engines": doc(ENGINES, "what finds machines itself, by name, such as {cluster: {NAME: {}}}"),
    "providers": doc(rent.PROVIDERS, "where machines can be rented, with the key of each"),
    "rent": doc(rent.RENT, "which machines may be rented"),
}
_READERS: Mapping[str, Reader] = {
    ".yaml": lambda text, _: read_yaml(text),
    ".yml": lambda text, _: read_yaml(text),
    ".toml": lambda text, _: read_toml(text),
    # JSON is YAML but for tabs between values; within text JSON has none.
    ".json": lambda text, _: read_yaml(text.replace("\t", " ")),
}


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """The machines that a run may use."""

    hosts: tuple[Host, ...] = ()
    local: Machine | None = None  # this machine; None: it takes no part
    engines: tuple[EngineChoice, ...] = ()  # each finds its machines itself
    providers: tuple[ProviderAccess, ...] = ()
    rent: tuple[RentEntry, ...] = ()


def load_inventory(path: str | Path) -> Inventory:
    """The machines in the file: ``.yaml``, ``.toml`` or ``.json``.

    Beside a mapping of `KEYS` it may be the hosts alone, as a list or by name. Raises
    `CampaignError` with every mistake in it at once.
    """
    file = Path(os.path.abspath(path))
    source = read_source(file, _READERS, "inventory of machines")
    return read_inventory(source, folder=file.parent, file_label=str(path))


def read_inventory(source: Source, *, folder: Path, file_label: str) -> Inventory:
    """The machines in plain data. Relative paths start at `folder`; mistakes name `file_label`.
    Raises `CampaignError` with every mistake at once."""
    mistakes = Mistakes(source)
    root = Entry(source.data, (), mistakes)
    inventory = _inventory(root, folder)
    local = inventory.local is not None
    if root.right and not (inventory.hosts or local or inventory.engines or inventory.providers):
        root.wrong("names no machine; write the names of some under 'hosts:'")
    if listed := mistakes.listed():
        raise CampaignError(file_label, listed)
    return inventory


def known_hosts_of(path: str | Path) -> Path:
    """The file that keeps the keys of an inventory's hosts, beside it; it need not exist yet."""
    return Path(os.path.abspath(path)).parent / ".benchfleet" / "known_hosts"


def choose_hosts(inventory: Inventory, patterns: Sequence[str]) -> Inventory:
    """The part of an inventory that patterns choose: names or labels, globs, ``!`` for all but.

    A pattern may hold several after commas; without any that is no ``!`` all are chosen. This
    machine is called ``here``. Raises CampaignError for a pattern that no machine answers to, and
    for a choice that leaves none.
    """
    words = [word.strip() for pattern in patterns for word in pattern.split(",") if word.strip()]
    if not words:
        return inventory
    words_by_host = {host.name: {host.name, *host.labels} for host in inventory.hosts}
    words_by_host.update({one.name: {one.name} for one in inventory.engines})
    if inventory.local is not None:
        words_by_host[LOCAL_HOST] = {LOCAL_HOST}
    every = sorted(set().union(*words_by_host.values()))
    if mistakes := [
        _idle(word, every) for word in words if not matches([word.removeprefix("!")], *every)
    ]:
        raise CampaignError("command line", mistakes)
    remaining = {name for name, own in words_by_host.items() if matches(words, *own)}
    if not remaining:
        raise wrong_option(
            f"--hosts {','.join(words)}", f"leaves none of {', '.join(words_by_host)}"
        )
    return replace(
        inventory,
        hosts=tuple(host for host in inventory.hosts if host.name in remaining),
        local=inventory.local if LOCAL_HOST in remaining else None,
        engines=tuple(one for one in inventory.engines if one.name in remaining),
    )


def same_machines(hosts: Sequence[Host]) -> list[str]:
    """What to say of hosts that are one machine: the same address, port and user, by the same way.
    Each may have a folder of its own, so that this is no mistake."""
    names: dict[tuple[object, ...], list[str]] = {}
    for host in hosts:
        way = host.address or host.name, host.port or 22, host.user, host.jump
        names.setdefault(way, []).append(host.name)
    return [
        f"{', '.join(some[:-1])} and {some[-1]} are one machine: its results count as those of "
        f"{len(some)}, and their slots share its devices; keep one, unless that is meant"
        for some in names.values()
        if len(some) > 1
    ]


def inventory_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12, of an inventory, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "benchfleet inventory of machines",
        **either(mapping(KEYS), _LISTED, _NAMED),
        "$defs": {"engines": {"enum": registry.names("engines")}},
    }


def _idle(word: str, every: Sequence[str]) -> Mistake:
    near = get_close_matches(word.removeprefix("!"), every, n=2) or every[:5]
    more = ", …" if len(near) == 5 and len(every) > 5 else ""
    message = f"no host and no label is called so; there are {', '.join(near)}{more}"
    return Mistake(key=f"--hosts {word}", message=message)


def _inventory(root: Entry, folder: Path) -> Inventory:
    by_key = isinstance(root.value, dict) and not set(KEYS).isdisjoint(root.value)
    fields = (root if by_key else root.like({})).fields(KEYS)
    defaults = fields["defaults"].fields(hosts.SHARED)
    nothing = root.like({}).fields(hosts.KEYS)
    read_host("", nothing, defaults, folder)  # what is wrong there is wrong without hosts, too
    found_hosts: list[Host] = []
    seen: dict[str, str] = {}
    for entry, name, own in _declared(fields["hosts"] if by_key else root):
        found_hosts.append(read_host(name, own, defaults, folder))
        if not name:
            continue
        if (twin := seen.setdefault(name.casefold(), name)) != name:
            entry.wrong(f"differs from {twin!r} in case alone; some file systems take them as one")
        elif any(host.name == name for host in found_hosts[:-1]):
            entry.wrong(f"{name!r} stands twice; remove one")
    local = _local_machine(fields["here"]) if by_key and "here" in root.value else None
    engines = read_engines(fields["engines"]) if by_key else ()
    for one in engines:
        entry = fields["engines"].inside(one.name)
        if host_name(entry, one.name) and one.name.casefold() in seen:
            entry.wrong(f"{one.name!r} is the name of a host, too; rename one of the two")
    providers = rent.read_providers(fields["providers"]) if by_key else ()
    rented = rent.read_rent(fields["rent"], providers) if by_key else ()
    return Inventory(
        hosts=tuple(found_hosts), local=local, engines=engines, providers=providers, rent=rented
    )


def _declared(entry: Entry) -> list[tuple[Entry, str, dict[str, Entry]]]:
    """Every host: the entry that names it, its name, and its fields."""
    if not isinstance(entry.value, list):
        return [
            (host, host_name(host, name), host.fields(hosts.KEYS))
            for name, host in entry.pairs("the hosts by name, or a list of them")
        ]
    declared = []
    for item in entry.items():
        alone = isinstance(item.value, str)
        fields = (item.like({}) if alone else item).fields(hosts.LISTED)
        name, hostname = fields.pop("name"), fields.pop("hostname")
        if not name.absent and fields["address"].absent:
            fields["address"] = hostname
        entry = item if alone else hostname if name.absent else name
        if entry.absent and isinstance(item.value, dict):
            item.wrong("has no name; write {hostname: …}")
        declared.append((entry, host_name(entry, entry.text()) if entry.text() else "", fields))
    return declared


def _local_machine(entry: Entry) -> Machine:
    fields = entry.fields(MACHINE)
    if not fields["gpus"].absent and not fields["cpu_slots"].absent:
        fields["cpu_slots"].wrong("stands beside 'gpus'; remove one of the two")
    return read_machine(*(fields[key] for key in MACHINE))
