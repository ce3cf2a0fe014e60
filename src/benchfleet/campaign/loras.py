"""A LoRA adapter over another model of the campaign, as an entry of ``models``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchfleet.hints import hint
from benchfleet.models.base import Adapter

from .base import absolute
from .declared_model import DeclaredModel
from .entry import MAX_COUNT, Entry
from .schema_types import MAPPING, NAME, TEXT, Shape, doc, whole

KEYS: Mapping[str, Shape] = {
    "base": doc(NAME, "the model of this list that a LoRA adapter is for"),
    "lora": doc(TEXT, "the folder of a LoRA adapter of PEFT, switched on the base's weights"),
}
_OWN: Mapping[str, Shape] = {
    "name": doc(NAME, "how results, rules and reports call it"),
    **KEYS,
    "generation": doc(MAPPING, "over that of the base"),
    "priority": doc(whole(-MAX_COUNT), "larger goes first (that of the base)"),
}
_FROM_BASE = "the base, which all other settings come from"


def is_lora(entry: Entry) -> bool:
    """Whether an entry of ``models`` is a LoRA adapter."""
    return any(not entry.inside(key).absent for key in KEYS)


def read_lora_model(entry: Entry, models: Sequence[DeclaredModel], folder: Path) -> DeclaredModel:
    """A LoRA adapter over one of the models; paths are taken from `folder`."""
    values = {key: value for key, value in entry.value.items() if value is not None}
    fields = entry.like(values).fields(_OWN, elsewhere=dict.fromkeys(values, _FROM_BASE))
    name, generation = fields["name"].name(), fields["generation"].kwargs()
    if fields["name"].absent:
        entry.wrong("has no name; write {name: …, base: …, lora: …}")
    base = _base_of(entry, fields["base"], {one.name: one for one in models})
    declared = DeclaredModel(name=name, entry=entry, generation=generation, model=None)
    if base is None or base.adapter is None or base.model is None:
        return declared
    path, digest = _read_folder(fields["lora"], base.adapter, folder)
    if not digest or not entry.right:
        return declared
    model = replace(base.model.model, name=name, lora=path, lora_digest=digest)
    priority = fields["priority"].whole(base.model.priority, least=-MAX_COUNT)
    return replace(
        declared,
        generation={**base.generation, **generation},
        model=replace(base.model, model=model, priority=priority, variants=()),
        opened=model,
        adapter=base.adapter,
    )


def with_modules(models: Sequence[DeclaredModel]) -> list[DeclaredModel]:
    """The models. If the server of a base has to know its LoRA adapters when it starts, the base
    and all its adapters have their folders by name as the setting ``loras``."""
    folders: dict[str, dict[str, str]] = {}
    for one in models:
        if one.opened is not None and one.opened.lora_digest:
            folders.setdefault(one.opened.load_key, {})[one.name] = one.opened.lora
    changed = []
    for one in models:
        loras = folders.get(one.opened.load_key) if one.opened is not None else None
        if loras and one.model is not None and one.adapter and "loras" in one.adapter.outside:
            model = one.model.model
            model = replace(model, outside={**model.outside, "loras": loras})
            one = replace(one, model=replace(one.model, model=model), opened=model)
        changed.append(one)
    return changed


def _base_of(
    entry: Entry, base: Entry, models: Mapping[str, DeclaredModel]
) -> DeclaredModel | None:
    name = base.text()
    if base.absent:
        entry.wrong("has no base; name the model that the LoRA adapter is for")
    elif base.right and name not in models:
        base.wrong(f"no model {name!r} in this list; {hint(name, models)}")
    return models.get(name)


def _read_folder(entry: Entry, adapter: type[Adapter], folder: Path) -> tuple[str, str]:
    """The folder of the adapter and its digest; ``""`` with a mistake."""
    if not (text := entry.text()):
        entry.wrong("is missing; name the folder of the LoRA adapter")
        return "", ""
    path = str(absolute(folder, text))
    try:
        return path, adapter.lora_digest(path)
    except (ValueError, OSError) as error:
        entry.wrong(str(error))
        return path, ""
