"""The ``configs`` of a matrix: attention settings by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchfleet import registry
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Config
from benchfleet.domain.matrix import ConfigOverrides
from benchfleet.domain.units import with_fractions
from benchfleet.hints import hint

from .chat import CHAT, THINKING, read_chat, read_thinking
from .defaults import Defaults
from .entry import Entry
from .plugins import plugin
from .schema_types import (
    ARGUMENT,
    MAPPING,
    NAME,
    TRUTH,
    Shape,
    doc,
    either,
    listing,
    mapping,
    named,
    nullable,
    one_or_list,
)
from .schema_types import plugin as plugin_name

_STEP = either(plugin_name("attention"), named({}, plugin_name("attention"), single=True))
QUANTIZATIONS: Mapping[str, Mapping[str, bool]] = {
    "bitsandbytes-int8": {"load_in_8bit": True},
    "bitsandbytes-int4": {"load_in_4bit": True},
}
MODES = ("measure", "fast")
KV_CACHES = ("int8", "int4")
_NO_KVPRESS = (
    "kvpress cannot run here: it needs transformers below 5.3, and changes each attention function"
    " of its process; run it as a script, by a model with its own 'python:' environment"
)
SERVER_KEYS: Mapping[str, Shape] = {
    "args": doc(listing(ARGUMENT), "at the end of its command line, after the model's own"),
    "env": doc(MAPPING, "variables of its environment"),
}
KEYS: Mapping[str, Shape] = {
    "attention": doc(one_or_list(_STEP), "which keys each query may look at; steps add up"),
    "settings": doc(MAPPING, "passed on to benchmarks that are scripts"),
    "everywhere": doc(TRUTH, "sparse in the context's prefill too (defaults.everywhere)"),
    "mode": doc(
        {"enum": [*MODES]}, "measure computes dense attention too; fast reads the kept keys alone"
    ),
    "chat": CHAT,
    "thinking": THINKING,
    "kv_cache": doc({"enum": [*KV_CACHES]}, "keys and values rounded to so many bits"),
    "generation": doc(MAPPING, "over all other generation kwargs"),
    "model_kwargs": doc(MAPPING, "over those of the model"),
    "server": doc(
        mapping(SERVER_KEYS), "more arguments and variables of a server that benchfleet starts"
    ),
    "quantization": doc(
        either(MAPPING, {"enum": [*QUANTIZATIONS]}), "a name, or the model's quantization_config"
    ),
}
SHAPE = doc(
    named(nullable(mapping(KEYS)), NAME),
    "attention settings by name; null is dense",
)


@dataclass(frozen=True, kw_only=True)
class DeclaredConfig:
    """A config as the file names it, and what it is where nothing is wrong with it."""

    name: str
    entry: Entry
    config: Config | None
    overrides: ConfigOverrides = field(default_factory=ConfigOverrides)


def read_configs(entry: Entry, defaults: Defaults, folder: Path = Path()) -> list[DeclaredConfig]:
    """Every config of the mapping; no mapping at all means dense alone. Paths of files that steps
    read are taken from `folder`."""
    if entry.absent:
        return [DeclaredConfig(name="dense", entry=entry, config=Config(name="dense"))]
    configs = [
        _read(key, item, defaults, folder) for key, item in entry.pairs("a mapping of names")
    ]
    if not configs and entry.right:
        entry.wrong("name at least one config, such as dense")
    return configs


def _read(name: str, entry: Entry, defaults: Defaults, folder: Path) -> DeclaredConfig:
    entry.like(name).name()
    fields = _without_bare_steps(entry).fields(KEYS)
    if fields["attention"].value == []:
        fields["attention"].wrong("names no step; leave it out for dense")
    items = fields["attention"].items(single=True)
    steps = [step for item in items if (step := _step(item, folder))]
    dense = [step.name for step in steps] == ["dense"]
    config = Config(
        name=name,
        attention=() if dense else tuple(steps),
        everywhere=fields["everywhere"].truth(defaults.everywhere),
        mode=_choice(fields["mode"], MODES) or MODES[0],
        chat=read_chat(fields["chat"]),
        thinking=read_thinking(fields["thinking"]),
        kv_cache=_choice(fields["kv_cache"], KV_CACHES),
        settings=fields["settings"].kwargs(),
    )
    model_kwargs = fields["model_kwargs"].kwargs()
    if not fields["quantization"].absent:
        model_kwargs["quantization_config"] = _quantization(fields["quantization"], model_kwargs)
    overrides = ConfigOverrides(
        model_kwargs=model_kwargs,
        generation=fields["generation"].kwargs(),
        server=_server(fields["server"]),
    )
    return DeclaredConfig(
        name=name, entry=entry, config=config if entry.right else None, overrides=overrides
    )


def _server(entry: Entry) -> dict[str, Any]:
    """What a config adds to a server's settings."""
    fields = entry.fields(SERVER_KEYS)
    args = [item.value for item in fields["args"].items()]
    env = fields["env"].kwargs()
    return {**({"args": args} if args else {}), **({"env": env} if env else {})}


def _choice(entry: Entry, choices: Sequence[str]) -> str:
    """The choice, or "" where there is none."""
    if not entry.absent and entry.value not in choices:
        entry.wrong(f"may not be {entry.value!r}; use {' or '.join(choices)}")
    return "" if entry.absent else str(entry.value)


def _quantization(entry: Entry, model_kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The ``quantization_config`` that a name stands for, or the mapping itself."""
    if "quantization_config" in model_kwargs:
        entry.wrong("stands beside model_kwargs.quantization_config; remove one")
    if isinstance(entry.value, str):
        if entry.value not in QUANTIZATIONS:
            entry.wrong(f"no quantization {entry.value!r}; {hint(entry.value, QUANTIZATIONS)}")
        return QUANTIZATIONS.get(entry.value, {})
    return entry.kwargs()


def _without_bare_steps(entry: Entry) -> Entry:
    """The entry without steps outside of ``attention``, each noted as a mistake."""
    if not isinstance(entry.value, dict):
        return entry
    if "kvpress" in entry.value:
        entry.inside("kvpress").wrong(_NO_KVPRESS)
        return entry.like({key: entry.value[key] for key in entry.value if key != "kvpress"})
    bare = [key for key in entry.value if key not in KEYS and key in registry.names("attention")]
    for key in bare:
        message = (
            f"is a step; a config has its steps below 'attention': {{attention: {{{key}: …}}}}"
        )
        entry.inside(key).wrong(message)
    return entry.like({key: value for key, value in entry.value.items() if key not in bare})


def _step(entry: Entry, folder: Path) -> AttentionStep | None:
    """One ``{name: value}``, or a bare name for one whose parameters all have defaults."""
    pairs = [(entry.value, entry.like({}))]
    if not isinstance(entry.value, str):
        pairs = entry.pairs("a name with its parameters, such as {local: 128}")
    if len(pairs) != 1:
        if pairs or entry.right:
            entry.wrong("must be one name with its parameters; put each in an item of the list")
        return None
    name, parameters = pairs[0]
    if name == "kvpress":
        parameters.wrong(_NO_KVPRESS)
        return None
    attention = plugin("attention", name, parameters)
    if attention is None:
        return None
    try:
        config = attention.parse(with_fractions(parameters.value)).within(folder)
        digests = config.digests()
    except (ValueError, OSError) as error:
        parameters.wrong(str(error))
        return None
    return AttentionStep(
        name=name, params=config.params(), version=attention.version, digests=digests
    )
