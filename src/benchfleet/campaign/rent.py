"""The keys ``providers`` and ``rent`` of an inventory."""

from __future__ import annotations

from collections.abc import Mapping

from benchfleet.domain.host import EXTRAS
from benchfleet.domain.rent import ProviderAccess, RentEntry
from benchfleet.hints import hint

from .entry import Entry
from .plugins import plugin
from .schema_types import (
    NAME,
    PRICE,
    SIZE,
    TEXT,
    TIME,
    Shape,
    doc,
    listing,
    mapping,
    named,
    one_or_list,
    whole,
)

PROVIDER: Mapping[str, Shape] = {
    "key": doc(TEXT, "where the API key is: env:NAME or file:PATH (the provider's own variable)"),
    "url": doc(TEXT, "base address of its API, for a gateway or a simulator"),
    "visible_within": doc(TIME, "for so long a new instance may be missing from its lists (3m)"),
}
ENTRY: Mapping[str, Shape] = {
    "name": doc(NAME, "what its machines are called"),
    "gpu": doc(TEXT, "name of the GPU, such as RTX 4090"),
    "gpus": doc(whole(), "GPUs for each machine (1)"),
    "count": doc(whole(), "machines at once, at most (1)"),
    "providers": doc(listing(NAME, least=1), "where they may be rented (all of 'providers')"),
    "max_price": doc(PRICE, "of an hour of one machine, disk included, such as 0.60 USD/h"),
    "disk": doc(SIZE, "size of its disk"),
    "image": doc(TEXT, "container image"),
    "cpu_slots": doc(whole(), "slots without a GPU, instead of its GPUs"),
    "user": doc(TEXT, "who logs in (the provider's usual user)"),
    "python": doc(TEXT, "its interpreter with benchfleet (benchfleet is installed there)"),
    "extra": doc(one_or_list({"enum": list(EXTRAS)}), "extras of benchfleet, installed there too"),
    "idle": doc(TIME, "without work for so long, a machine is returned (2m)"),
    "region": doc(TEXT, "part of the name of a country or region"),
    "dead_man": doc(
        {"enum": ["required", "none"]},
        "none: also machines that cannot destroy themselves when nobody is left (required)",
    ),
}
PROVIDERS = named(mapping(PROVIDER), NAME)
RENT = listing(mapping(ENTRY, required=("name", "gpu")))
_IDLE_S = 120.0
_SOURCES = ("env:", "file:")


def read_providers(entry: Entry) -> tuple[ProviderAccess, ...]:
    """The providers by name; what is wrong is noted."""
    entries = []
    for name, own in entry.pairs("the providers by name"):
        plugin("providers", name, own)
        fields = own.fields(PROVIDER)
        key = fields["key"].text()
        if key and not key.startswith(_SOURCES):
            fields["key"].wrong("a key does not stand in a file like this; write env:NAME")
        entries.append(
            ProviderAccess(
                name=name,
                key=key,
                url=fields["url"].text(),
                visible_within=fields["visible_within"].duration(None),
            )
        )
    return tuple(entries)


def read_rent(entry: Entry, providers: tuple[ProviderAccess, ...]) -> tuple[RentEntry, ...]:
    """What may be rented; what is wrong is noted."""
    names = [access.name for access in providers]
    entries: list[RentEntry] = []
    for item in entry.items():
        fields = item.fields(ENTRY)
        name = fields["name"].name()
        if not name or not fields["gpu"].text():
            item.wrong("needs a name and a gpu: {name: r4090, gpu: RTX 4090}")
        if name in [one.name for one in entries]:
            fields["name"].wrong(f"{name!r} stands twice; remove one")
        where = [one.text() for one in fields["providers"].items()]
        for one, own in zip(where, fields["providers"].items(), strict=True):
            if one not in names:
                own.wrong(f"{one!r} does not stand under 'providers'; there are {names}")
        price = fields["max_price"].price()
        if price is not None and price.per_gpu:
            fields["max_price"].wrong("is the price of a whole machine; write 0.60 USD/h")
        if (dead_man := fields["dead_man"].text("required")) not in ("required", "none"):
            fields["dead_man"].wrong(f"must be required or none, not {dead_man!r}")
        idle = fields["idle"].duration(None)
        entries.append(
            RentEntry(
                name=name,
                gpu=fields["gpu"].text(),
                gpus=fields["gpus"].whole(1),
                count=fields["count"].whole(1),
                providers=tuple(where or names),
                max_price=price,
                disk=fields["disk"].size(),
                image=fields["image"].text(),
                region=fields["region"].text(),
                needs_dead_man=dead_man == "required",
                cpu_slots=None if fields["cpu_slots"].absent else fields["cpu_slots"].whole(1),
                user=fields["user"].text(),
                python=fields["python"].text(),
                idle=_IDLE_S if idle is None else idle,
                extras=_extras(fields["extra"]),
            )
        )
    if entries and not providers:
        entry.wrong('needs a provider; write providers: {vast: {key: "env:VAST_API_KEY"}}')
    return tuple(entries)


def _extras(entry: Entry) -> tuple[str, ...]:
    """The extras of benchfleet that a machine is to have; unknown ones are noted."""
    extras = []
    for item in entry.items(single=True):
        if (extra := item.text()) in EXTRAS:
            extras.append(extra)
        elif extra:
            item.wrong(f"no extra {extra!r}; {hint(extra, EXTRAS)}")
    return tuple(extras)
