"""The ``models`` of a matrix: what may be written of one, and the model it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchfleet.domain.cell import Model
from benchfleet.domain.matrix import ModelEntry
from benchfleet.domain.part import AUTO_SPLIT
from benchfleet.domain.resource import Need
from benchfleet.models.base import Adapter

from . import checkpoints, loras
from .base import absolute
from .chat import CHAT, THINKING, read_chat, read_thinking
from .checkpoints import entries_of, read_series
from .declared_model import DeclaredModel
from .defaults import ADAPTER, CELL_LIMITS, Defaults, read_limits
from .entry import MAX_COUNT, Entry
from .loras import is_lora, read_lora_model, with_modules
from .plugins import plugin as opened_plugin
from .schema_types import (
    ARGUMENT,
    LABEL,
    MAPPING,
    MONEY,
    NAME,
    SIZE,
    SLOTS,
    TEXT,
    TIME,
    Shape,
    doc,
    either,
    listing,
    mapping,
    plugin,
    whole,
)

_GPUS = 64  # no host holds more, and one cell is bound to one host

NEEDS: Mapping[str, Shape] = {
    "gpus": doc(whole(0, _GPUS), "GPUs that one cell is bound to (1 with vram, else 0)"),
    "vram": doc(SIZE, "memory on each of them"),
}
TOKEN_PRICES: Mapping[str, Shape] = {
    "in": doc(MONEY, "of the prompt's, such as 0.15 USD"),
    "out": doc(MONEY, "of the answer's"),
}
SERVER: Mapping[str, Shape] = {
    "args": doc(listing(ARGUMENT), "further arguments of its command line"),
    "env": doc(MAPPING, "variables of its environment"),
    "start_timeout": doc(TIME, "until it is ready (10m)"),
}
KEYS: Mapping[str, Shape] = {
    "name": doc(NAME, "how results, rules and reports call it (as 'model')"),
    "adapter": doc(plugin("models"), "what opens it (defaults.adapter)"),
    "path": doc(TEXT, "a folder to open"),
    "model": doc(TEXT, "a name to open, such as that of a hub (as 'name')"),
    "revision": doc(LABEL, "of 'model': a commit, tag or branch"),
    "python": doc(TEXT, "interpreter for its slots (the runner's own)"),
    "model_kwargs": doc(MAPPING, "over those of the defaults"),
    "tokenizer_kwargs": doc(MAPPING, "over those of the defaults"),
    "generation": doc(MAPPING, "over that of the defaults"),
    "needs": doc(mapping(NEEDS), "what one cell asks of a machine"),
    "url": doc(TEXT, "of a model's server (from the environment)"),
    "key": doc(TEXT, "for that server, as env:NAME or file:PATH (none)"),
    "requests_at_once": doc(whole(1), "to that server, at most (8)"),
    "timeout": doc(TIME, "of one request to it, with its retries (10m)"),
    "price": doc(mapping(TOKEN_PRICES), "of a million tokens"),
    "api": doc(TEXT, "chat, or completions: the prompt without the model's template (chat)"),
    "chat": CHAT,
    "thinking": THINKING,
    "system": doc(TEXT, "the system message of each chat (none)"),
    "server": doc(mapping(SERVER), "of a server that benchfleet starts"),
    **checkpoints.KEYS,
    **loras.KEYS,
    "size": doc(SIZE, "of its weights, for plans, where they cannot be read here"),
    "limits": doc(mapping(CELL_LIMITS), "over those of the defaults"),
    "split": doc(SLOTS, "its cells into so many parts (defaults.split), or auto"),
    "priority": doc(whole(-MAX_COUNT), "larger goes first (0)"),
}
SERVED = ("url", "key", "requests_at_once", "timeout", "price", "api", "system", "server")
VARIANTS = "variants"
_OWN = {
    key: shape
    for key, shape in KEYS.items()
    if key not in ("priority", *checkpoints.KEYS, *loras.KEYS)
}
WITH_VARIANTS: Mapping[str, Shape] = {
    **KEYS,
    VARIANTS: doc(
        listing(either(NAME, mapping(_OWN))),
        "quantised or smaller models that stand in for it where it does not fit, the best first",
    ),
}
SHAPE = doc(
    listing(either(NAME, mapping(WITH_VARIANTS)), least=1),
    "the models: names that the adapter knows, or mappings",
)


def read_models(entry: Entry, defaults: Defaults, folder: Path) -> list[DeclaredModel]:
    """Every model of the list; paths are taken from `folder`."""
    items = entry.items()
    bases = [item for item in items if not is_lora(item)]
    models = [one for item in bases for one in _read_all(item, defaults, folder)]
    models += [read_lora_model(item, models, folder) for item in items if is_lora(item)]
    if not models and entry.right:
        entry.wrong("name at least one model, such as meta-llama/Llama-3.1-8B-Instruct")
    return with_modules(models)


def _read_all(entry: Entry, defaults: Defaults, folder: Path) -> list[DeclaredModel]:
    """The model of an entry, or those of a series of checkpoints."""
    if entry.inside("checkpoints").absent:
        return [_read(entry, defaults, folder)]
    fields = entry.fields(WITH_VARIANTS)
    adapter, _ = _adapter(entry, fields["adapter"], defaults)
    series = read_series(entry, fields, adapter, folder)
    models = []
    for step, one in entries_of(series, entry) if series else ():
        declared = _read(one, defaults, folder)
        if declared.model is not None:
            name = str(entry.value["name"])
            model = replace(declared.model.model, series=name, step=step)
            declared = replace(declared, model=replace(declared.model, model=model), opened=model)
        models.append(replace(declared, series=series))
    return models


def _read(
    entry: Entry,
    defaults: Defaults,
    folder: Path,
    keys: Mapping[str, Shape] = WITH_VARIANTS,
) -> DeclaredModel:
    if isinstance(entry.value, str):
        fields = entry.like({}).fields(keys)
        name, source, origin = _hub_name(entry), entry.value, entry
    else:
        fields = entry.fields(keys)
        name, source, origin = _name_and_source(entry, fields, folder)
    if not source and entry.right:
        entry.wrong("names nothing to open; give it a 'path' or a 'model'")
    adapter, adapter_entry = _adapter(entry, fields["adapter"], defaults)
    kwargs, tokenizer_kwargs = fields["model_kwargs"].kwargs(), fields["tokenizer_kwargs"].kwargs()
    if adapter == _default_adapter(defaults):
        kwargs = {**defaults.model_kwargs, **kwargs}
        tokenizer_kwargs = {**defaults.tokenizer_kwargs, **tokenizer_kwargs}
    generation = fields["generation"].kwargs()
    python = _python(fields["python"], folder)
    need, size = _need(fields["needs"]), fields["size"].size()
    priority = fields["priority"].whole(0, least=-MAX_COUNT) if "priority" in fields else 0
    limits = read_limits(fields["limits"], CELL_LIMITS, defaults.limits)
    opened: type[Adapter] | None = opened_plugin("models", adapter, adapter_entry, python=python)
    kwargs |= _served(fields, opened, adapter)
    if opened and need == Need():
        need = Need(endpoint=opened.server_elsewhere(kwargs))
    outside = opened.outside if opened else ()
    digest = _digest(opened, source, kwargs, origin) if opened and origin.right else ""
    model = ModelEntry(
        model=Model(
            name=name,
            adapter=adapter,
            source=source,
            digest=digest,
            model_kwargs={key: kwargs[key] for key in kwargs if key not in outside},
            tokenizer_kwargs=tokenizer_kwargs,
            python=python,
            adapter_version=opened.version if opened else None,
            outside={key: kwargs[key] for key in kwargs if key in outside},
        ),
        need=need,
        limits=None if fields["limits"].absent else limits,
        priority=priority,
        split=None if fields["split"].absent else fields["split"].slots(AUTO_SPLIT),
        size=size,
        chat=read_chat(fields["chat"]),
        thinking=read_thinking(fields["thinking"]),
    )
    variants = fields[VARIANTS].items() if VARIANTS in fields else ()
    return DeclaredModel(
        name=name,
        entry=entry,
        generation=generation,
        model=model if digest and entry.right else None,
        opened=model.model if digest else None,
        adapter=opened,
        variants=tuple(
            _read(item, replace(defaults, limits=limits), folder, _OWN).as_variant(
                generation, None if fields["limits"].absent else limits
            )
            for item in variants
        ),
    )


def _hub_name(entry: Entry) -> str:
    if entry.value.startswith((".", "/", "~")):
        entry.wrong(f"to open a folder, write {{name: …, path: {entry.value}}}")
        return ""
    return entry.name()


def _name_and_source(
    entry: Entry, fields: dict[str, Entry], folder: Path
) -> tuple[str, str, Entry]:
    """Its name, what the adapter is to open, and the entry that says so."""
    path, model, revision = fields["path"], fields["model"], fields["revision"]
    if isinstance(entry.value, dict) and fields["name"].absent and model.absent:
        entry.wrong("has no name; write {name: …, path: …} or {name: …, model: …}")
    named = model if fields["name"].absent else fields["name"]
    name = named.name()
    if path.absent:
        source = model.text(name)
        if source and not revision.absent:
            source += f"@{revision.label()}"
        return name, source, named if model.absent else model
    if not model.absent:
        path.wrong("stands beside 'model'; a model is a folder or a name, so remove one")
    if not revision.absent:
        revision.wrong("a folder has no revision; remove it, or name the model by 'model'")
    return name, str(absolute(folder, path.text())) if path.text() else "", path


def _default_adapter(defaults: Defaults) -> str:
    value = defaults.adapter.value
    return value if isinstance(value, str) else ADAPTER


def _adapter(entry: Entry, own: Entry, defaults: Defaults) -> tuple[str, Entry]:
    """The adapter's name, and the entry that chose it."""
    if not own.absent:
        return own.text(ADAPTER), own
    return defaults.adapter.text(ADAPTER), entry if defaults.adapter.absent else defaults.adapter


def _served(
    fields: Mapping[str, Entry], opened: type[Adapter] | None, adapter: str
) -> dict[str, Any]:
    """The keys of a model behind a server, which its adapter takes as kwargs."""
    prices = fields["price"].fields(TOKEN_PRICES).values()
    currencies = {money[1] for price in prices if (money := price.money())}
    if len(currencies) > 1:
        fields["price"].wrong("has two currencies; write one")
    server = fields["server"].fields(SERVER)
    server["args"].items()
    server["env"].kwargs()
    server["start_timeout"].duration(None)
    kwargs = {}
    for key in SERVED:
        if fields[key].absent or opened is None:
            continue
        if key in opened.keys:
            kwargs[key] = fields[key].value
            if key == "server":
                kwargs |= _without_start_timeout(kwargs)
        else:
            fields[key].wrong(f"the adapter {adapter} takes no {key!r}; remove it")
    return kwargs


def _without_start_timeout(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The server's settings, its time limit apart: that is no part of the identity."""
    server = dict(kwargs["server"]) if isinstance(kwargs["server"], dict) else {}
    timeout = server.pop("start_timeout", None)
    return {"server": server} | ({} if timeout is None else {"start_timeout": timeout})


def _digest(adapter: type[Adapter], source: str, kwargs: Mapping[str, Any], origin: Entry) -> str:
    try:
        return adapter.identify(source, kwargs)
    except (ValueError, OSError) as error:
        origin.wrong(str(error))
        return ""


def _python(entry: Entry, folder: Path) -> str:
    """The interpreter for its slots; never resolved, since a venv's is known by its link."""
    text = entry.text()
    if not text:
        return ""
    import shutil  # seldom needed, and slow to import

    interpreter = str(absolute(folder, text)) if "/" in text else shutil.which(text)
    if interpreter is None or shutil.which(interpreter) is None:
        entry.wrong(f"interpreter {interpreter or text} not found; create its environment first")
    return interpreter or ""


def _need(entry: Entry) -> Need:
    fields = entry.fields(NEEDS)
    vram = fields["vram"].size()
    return Need(gpus=fields["gpus"].whole(1 if vram else 0, least=0, most=_GPUS), vram=vram)
