"""What can only be seen of a matrix as a whole: names and contents that fall together."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Model
from benchfleet.domain.names import path_part

from .benchmarks import DeclaredWorkload
from .configs import DeclaredConfig
from .declared_model import DeclaredModel
from .entry import Entry

OTHER_NAME = "give it another 'name' (of command, inspect, lm_eval and python)"
_BESIDE_MODELS = frozenset(
    {
        "benchmark_report.md",
        "report.md",
        "report.html",
        "execution_summary.json",
        "combined_results.json",
    }
)


def check_names(
    models: Sequence[DeclaredModel],
    configs: Sequence[DeclaredConfig],
    workloads: Sequence[DeclaredWorkload],
) -> None:
    """Refuse names that would share a folder, also where file systems ignore case, and those
    of the campaign's own files."""
    for model in models:
        folder = model.name.casefold()
        if folder.startswith("ledger.db") or folder in _BESIDE_MODELS:
            model.entry.wrong(f"{model.name!r} is a file of the results folder; name it otherwise")
    _apart((model.name, repr(model.name), model.entry) for model in models)
    _apart((config.name, repr(config.name), config.entry) for config in configs)
    labels = []
    for declared in workloads:
        spoken = f"benchmark {declared.benchmark!r}"
        if declared.subset is not None:
            spoken += f" with subset {declared.subset!r}"
        labels.append(
            (declared.workload.label if declared.workload else "", spoken, declared.entry)
        )
    _apart(labels, OTHER_NAME)


def _apart(named: Iterable[tuple[str, str, Entry]], advice: str = "give it another name") -> None:
    """`advice` says how to have one twice."""
    seen: dict[str, str] = {}
    for name, spoken, entry in named:
        try:
            folder = path_part(name)
        except ValueError as error:
            if name and entry.right:
                entry.wrong(str(error))
            continue
        key = unicodedata.normalize("NFC", folder).casefold()
        other = seen.setdefault(key, spoken)
        if other is spoken:
            continue
        if other == spoken:
            entry.wrong(f"{spoken} stands twice; remove one, or {advice}")
        else:
            entry.wrong(f"{other} and {spoken} would share the folder {folder!r}; rename one")


def check_contents(models: Sequence[DeclaredModel], configs: Sequence[DeclaredConfig]) -> None:
    """Refuse two names for one content: a cell's identity is its content alone."""
    _differ(
        "models",
        [
            (
                m.name,
                m.entry,
                [m.model.model.identity(), dict(m.generation)],
                _advice(m.model.model),
            )
            for m in models
            if m.model
        ],
    )
    _differ(
        "configs",
        [
            (c.name, c.entry, [c.config.identity(), asdict(c.overrides)], "remove one")
            for c in configs
            if c.config
        ],
    )


def _advice(model: Model) -> str:
    servers = "; two servers of one model need two campaigns" if "url" in model.outside else ""
    return f"remove one{servers}"


def _differ(axis: str, declared: Iterable[tuple[str, Entry, object, str]]) -> None:
    seen: dict[str, str] = {}
    for name, entry, content, advice in declared:
        other = seen.setdefault(content_digest(content), name)
        if other != name:
            entry.wrong(
                f"{other!r} and {name!r} are the same {axis[:-1]} under two names, so their cells "
                f"would be one; {advice}"
            )
