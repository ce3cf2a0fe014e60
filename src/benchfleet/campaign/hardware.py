"""The ``hardware`` of a matrix: the GPUs that its cells run on."""

from __future__ import annotations

from collections.abc import Mapping

from benchfleet.domain.canonical import content_digest
from benchfleet.domain.hardware import LOCAL, Hardware
from benchfleet.domain.names import path_part
from benchfleet.hints import hint
from benchfleet.registry import names

from .entry import Entry
from .schema_types import NAME, TEXT, Shape, doc, either, listing, mapping, whole

KEYS: Mapping[str, Shape] = {
    "name": doc(NAME, "for rules and results (made of gpu and provider)"),
    "gpu": doc(TEXT, "name of the GPU, such as RTX 4090 or A100 80GB"),
    "gpus": doc(whole(), "so many of it in one machine, at least (1)"),
    "provider": doc(NAME, "where it is rented, such as vast; local: not rented (any)"),
}
SHAPE: Shape = doc(
    listing(either(TEXT, mapping(KEYS, required=("gpu",))), least=1),
    "GPUs that cells run on; a cell for each of them, if the benchmark measures speed",
)


def read_hardware(entry: Entry) -> list[Hardware]:
    """The entries of the axis; what is wrong is noted."""
    hardware: list[Hardware] = []
    contents: dict[str, str] = {}
    for item in entry.items():
        alone = isinstance(item.value, str)
        fields = item.like({"gpu": item.value}).fields(KEYS) if alone else item.fields(KEYS)
        gpu, provider = fields["gpu"].text().strip(), fields["provider"].text()
        if not gpu and item.right:
            item.wrong("names no GPU; write {gpu: RTX 4090}")
        if provider:
            known_names = [LOCAL, *names("providers")]
            if provider not in known_names:
                message = f"no provider {provider!r}; {hint(provider, known_names)}"
                fields["provider"].wrong(message)
        one = Hardware(
            name=fields["name"].name() or _name(gpu, provider),
            gpu=gpu,
            gpus=fields["gpus"].whole(1),
            provider=provider,
        )
        if not item.right:
            continue
        if one.name in contents.values():
            item.wrong(f"{one.name!r} stands twice; give this hardware another name")
            continue
        other = contents.setdefault(content_digest(one.identity()), one.name)
        if other != one.name:
            item.wrong(f"{other!r} and {one.name!r} are the same hardware; remove one")
            continue
        hardware.append(one)
    return hardware


def _name(gpu: str, provider: str) -> str:
    return path_part("-".join(f"{gpu} {provider}".casefold().split()))
