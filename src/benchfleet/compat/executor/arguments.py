"""A call's arguments as the data of a campaign, so that one set of rules checks both."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchfleet.campaign.base import Campaign, absolute
from benchfleet.campaign.configs import KEYS
from benchfleet.campaign.load import read_campaign
from benchfleet.campaign.plain_data import to_plain_data
from benchfleet.campaign.source import Flaw, KeyPath, Source, TooMuch, dotted
from benchfleet.errors import CampaignError, Mistake

from .generation_kwargs import campaign_generation
from .hub_configs import hub_steps, is_hub_config
from .request_kwargs import request_problems

CALL = "BenchmarkExecutor.run_benchmark_matrix"
CAMPAIGN = "benchmark_matrix"  # one name for all, so that a results folder may be renamed
MODELS, CONFIGS, BENCHMARKS = "model_names", "sparse_attention_configs", "benchmark_configs"
ADAPTER, GENERATION = "adapter_config", "generation_kwargs"
REQUEST, LIMITS, REPEATS = "request_kwargs", "limits", "repeats"
_ORDER = (MODELS, CONFIGS, BENCHMARKS, ADAPTER, GENERATION, REQUEST, LIMITS, REPEATS)
_TIMES = ("cell", "generation", "stuck")  # limits that are times
_ADAPTERS = {"huggingface": "transformers"}  # as the earlier tool called it


@dataclass(kw_only=True)
class Arguments:
    """What a call asks for, what was wrong with it at first sight, and who said what."""

    folder: Path  # relative paths start here
    matrix: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)  # under the names of the arguments
    models: dict[str, str] = field(default_factory=dict)  # name in the results → as it was given
    configs: dict[str, Any] = field(default_factory=dict)  # name → what was given for it
    keys: dict[str, str] = field(default_factory=dict)  # the campaign's key → the argument's
    # arguments' items that are a line of their own
    item_keys: list[str] = field(default_factory=list)
    lines: dict[KeyPath, int] = field(default_factory=dict)  # where each of those stands, from 1

    def campaign(self, results: Path) -> Campaign:
        """The campaign that they make. Raises CampaignError with every mistake in them."""
        data = {"campaign": CAMPAIGN, "defaults": self.defaults, "matrix": self.matrix}
        try:
            plain_data, flaws = to_plain_data(data)
        except TooMuch as error:
            raise CampaignError(CALL, [Mistake(key="", message=str(error))]) from None
        source = Source(data=plain_data, lines=self.lines, flaws=(*self.flaws, *flaws))
        try:
            return read_campaign(source, file=self.folder / CALL, file_label=CALL, results=results)
        except CampaignError as error:
            raise CampaignError(CALL, self._in_our_words(error.mistakes)) from None

    def wrong(self, path: KeyPath, message: str) -> None:
        """Note a mistake under the name of an argument."""
        self.flaws.append(Flaw(message=message, path=path))

    def _in_our_words(self, mistakes: Iterable[Mistake]) -> list[Mistake]:
        """The mistakes under the names of the arguments, without what only follows from ours."""
        own = [(dotted(flaw.path), flaw.message) for flaw in self.flaws]
        mistakes_found = []
        for mistake in mistakes:
            line = mistake.line
            key = self._argument(mistake.key) if line is None else self.item_keys[line - 1]
            follows = (key, mistake.message) not in own and any(
                where == key or where.startswith((f"{key}[", f"{key}.")) for where, _ in own
            )
            if not follows:
                mistakes_found.append(Mistake(key=key, message=mistake.message))
        return sorted(mistakes_found, key=lambda mistake: _argument_rank(mistake.key))

    def _argument(self, key: str) -> str:
        for ours in sorted(self.keys, key=len, reverse=True):
            if key == ours or key.startswith((f"{ours}[", f"{ours}.")):
                return self.keys[ours] + key[len(ours) :]
        return key


def _argument_rank(key: str) -> int:
    """The place of the argument that a key begins with."""
    return next((n for n, name in enumerate(_ORDER) if key.startswith(name)), len(_ORDER))


def read_arguments(
    folder: Path,
    model_names: Any,
    sparse_attention_configs: Any,
    benchmark_configs: Any,
    adapter_config: Any,
    generation_kwargs: Any,
    *,
    request_kwargs: Any = None,
    limits: Any = None,
    repeats: Any = None,
) -> Arguments:
    """The arguments of a call; mistakes are noted in what is returned, not raised."""
    read = Arguments(folder=folder)
    read.keys = {
        "matrix.models": MODELS,
        "matrix.configs": CONFIGS,
        "matrix.benchmarks": BENCHMARKS,
        "defaults.adapter": f"{ADAPTER}.adapter_name",
        "defaults.model_kwargs": f"{ADAPTER}.model_kwargs",
        "defaults.tokenizer_kwargs": f"{ADAPTER}.tokenizer_kwargs",
        "defaults.generation": GENERATION,
        "defaults.limits": LIMITS,
        "defaults.repeats": REPEATS,
    }
    _read_models(read, model_names)
    _read_configs(read, sparse_attention_configs)
    _read_benchmarks(read, benchmark_configs)
    _read_adapter(read, adapter_config)
    read.defaults["generation"] = _generation(read, generation_kwargs, (GENERATION,))
    for name, message in request_problems(request_kwargs).items():
        read.wrong((REQUEST, name) if name else (REQUEST,), message)
    read.defaults |= {"limits": _with_units(limits), "repeats": repeats}
    return read


def _with_units(limits: Any) -> Any:
    """The limits, with plain numbers of time as seconds; what is no mapping as it is."""
    if not isinstance(limits, Mapping):
        return limits
    return {
        key: f"{value}s" if key in _TIMES and type(value) in (int, float) else value
        for key, value in limits.items()
    }


def _generation(read: Arguments, kwargs: Any, path: KeyPath) -> Any:
    """Generation kwargs in the campaign's words; what is no mapping as it is."""
    if not isinstance(kwargs, Mapping):
        return kwargs
    generation, problems = campaign_generation(kwargs)
    for name, message in problems.items():
        read.wrong((*path, name), message)
    return generation


def _read_models(read: Arguments, argument: Any) -> None:
    items = _listed(read, MODELS, argument, "['org/name', './folder']")
    folders = [_folder(read.folder, item) for item in items]
    called = _called([folder for folder in folders if folder is not None])
    listed: list[Any] = []
    for index, (item, folder) in enumerate(zip(items, folders, strict=True)):
        ours, argument_key = f"matrix.models[{len(listed)}]", f"{MODELS}[{index}]"
        read.keys[ours] = argument_key
        if isinstance(item, Mapping):
            name = item.get("name", item.get("model"))
            listed.append(item)
            read.models[str(name)] = str(name)
        elif not isinstance(item, (str, os.PathLike)):
            read.wrong((MODELS, index), f"must be a name or a folder, not {item!r:.60}")
        elif folder is None:
            listed.append(item)
            read.models[str(item)] = str(item)
        else:
            source = os.fsdecode(item)
            name = source if _named_as_a_hub_model(item) else called[folder]
            listed.append({"name": name, "path": str(folder)})
            read.keys |= {f"{ours}.name": argument_key, f"{ours}.path": argument_key}
            read.models[name] = source
    read.matrix["models"] = listed


def _folder(start: Path, item: Any) -> Path | None:
    """The folder that an item names, or None where it is a name for the adapter."""
    if isinstance(item, os.PathLike):
        return absolute(start, os.fsdecode(item))
    if not isinstance(item, str) or not item:
        return None
    path = absolute(start, item)
    return path if not _named_as_a_hub_model(item) or os.path.isdir(path) else None


def _named_as_a_hub_model(item: Any) -> bool:
    """Whether it could be a hub's name too: those keep the folder names that users know."""
    return isinstance(item, str) and not item.startswith((".", "/", "~"))


def _called(folders: Sequence[Path]) -> dict[Path, str]:
    """Each folder by its last part, or by as many of the last as tell it from the others."""
    names = {}
    for folder in folders:
        length = 1
        while length < len(folder.parts) and any(
            other != folder and other.parts[-length:] == folder.parts[-length:] for other in folders
        ):
            length += 1
        names[folder] = "/".join(folder.parts[-length:])
    return names


def _read_configs(read: Arguments, argument: Any) -> None:
    pairs = argument.items() if isinstance(argument, Mapping) else argument
    named: dict[str, Any] = {}
    for index, item in enumerate(_listed(read, CONFIGS, pairs, "[('dense', None)]")):
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            message = f"must be a pair such as ('dense', None), not {item!r:.60}"
            read.wrong((CONFIGS, index), message)
            continue
        name, config = item
        if not isinstance(name, str):
            read.wrong((CONFIGS, index, 0), f"must be a name, not {name!r:.60}")
        elif name in named:
            message = f"{name!r} stands twice; give each config a name of its own"
            read.wrong((CONFIGS, index, 0), message)
        else:
            read.configs[name] = config
            if is_hub_config(config):
                try:
                    config = hub_steps(config)
                except ValueError as error:
                    read.wrong((CONFIGS, index, 1), str(error))
                    config = None
            whole = isinstance(config, Mapping) and KEYS.keys() & config.keys()
            named[name] = config if config is None or whole else {"attention": config}
            ours, argument_key = dotted(("matrix", "configs", name)), f"{CONFIGS}[{index}]"
            read.keys[ours] = f"{argument_key}[1]" if whole else argument_key
            if not whole:
                read.keys[f"{ours}.attention"] = f"{argument_key}[1]"
    read.matrix["configs"] = named


def _read_benchmarks(read: Arguments, argument: Any) -> None:
    listed: list[Any] = []
    example = "[BenchmarkConfig('mock_benchmark')]"
    for index, item in enumerate(_listed(read, BENCHMARKS, argument, example)):
        name = getattr(item, "benchmark_name", None)
        if isinstance(item, (str, Mapping)):
            body = item
            name = next(iter(item), "") if isinstance(item, Mapping) else item
        elif isinstance(name, str):
            settings = getattr(item, "settings", None) or {}
            if not isinstance(settings, Mapping):
                read.wrong((BENCHMARKS, index, "settings"), "must be a mapping of names to values")
                settings = {}
            if "generation" in settings:
                at = (BENCHMARKS, index, "settings", "generation")
                generation = _generation(read, settings["generation"], at)
                settings = {**settings, "generation": generation}
            subsets = getattr(item, "subsets", None)
            body = {name: {**settings, **({} if subsets is None else {"subsets": subsets})}}
            for number in range(len(subsets) if isinstance(subsets, (list, tuple)) else 0):
                read.item_keys.append(f"{BENCHMARKS}[{index}].subsets[{number}]")
                path = ("matrix", "benchmarks", len(listed), name, "subsets", number)
                read.lines[path] = len(read.item_keys)
        else:
            message = "must be a BenchmarkConfig, or have a benchmark_name that is text"
            read.wrong((BENCHMARKS, index), f"{message}; not {item!r:.60}")
            continue
        ours = ("matrix", "benchmarks", len(listed))
        read.keys[dotted(ours)] = f"{BENCHMARKS}[{index}]"
        read.keys[dotted((*ours, str(name)))] = f"{BENCHMARKS}[{index}]"
        listed.append(body)
    read.matrix["benchmarks"] = listed


def _read_adapter(read: Arguments, argument: Any) -> None:
    name = getattr(argument, "adapter_name", None)
    if name is None:
        message = f"must be an AdapterConfig, or have its attributes; not {argument!r:.60}"
        read.wrong((ADAPTER,), message)
        return
    read.defaults["adapter"] = _ADAPTERS.get(name, name) if isinstance(name, str) else name
    for kwargs in ("model_kwargs", "tokenizer_kwargs"):
        read.defaults[kwargs] = getattr(argument, kwargs, None)


def _listed(read: Arguments, argument: str, value: Any, example: str) -> list[Any]:
    """The items of an argument that must be a list; any iterable but text is one."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
        return list(value)
    read.wrong((argument,), f"must be a list such as {example}, not {value!r:.60}")
    return []
