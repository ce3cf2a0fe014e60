"""A campaign file with its comments, as `benchfleet init` writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchfleet.cli.text.terminal import printable
from benchfleet.domain.humanize import gigabytes
from benchfleet.domain.resource import Device

_MAX_MODELS = 3  # models that a first campaign begins with
_PLAIN_SCALAR = re.compile(r"(?!(?:null|true|false)$)[A-Za-z][\w./@-]*", re.IGNORECASE | re.ASCII)
_SPARSE = (
    "streaming: {attention: [{sink: 4}, {local: 1020}]}  # the first 4 tokens and the last 1020",
    "top-10%: {attention: [{sink: 4}, {local: 64}, {oracle_top_k: 10%}]}  # and the best tenth",
)


@dataclass(frozen=True, kw_only=True)
class MachineSummary:
    """What the machine has."""

    gpus: tuple[Device, ...]
    cores: int
    ram: int  # bytes free

    @property
    def largest(self) -> int:
        """Bytes that one cell can have."""
        return max((gpu.memory for gpu in self.gpus), default=self.ram)

    def __str__(self) -> str:
        names = [f"{gpu.label} {gpu.name} with {gigabytes(gpu.memory)}" for gpu in self.gpus]
        return ", ".join([*names, f"{self.cores} cores", f"{gigabytes(self.ram)} of memory free"])


@dataclass(frozen=True, kw_only=True)
class CachedModel:
    """A model of the local cache, and what a cell with it takes."""

    source: str
    memory: int  # bytes


def chosen_models(machine: MachineSummary, models: Sequence[CachedModel]) -> list[CachedModel]:
    """Those to begin with: the largest that fit."""
    fitting = [model for model in models if model.memory <= machine.largest]
    return sorted(fitting, key=lambda model: -model.memory)[:_MAX_MODELS]


def draft(
    *, file: str, name: str, machine: MachineSummary, models: Sequence[CachedModel], no_models: str
) -> str:
    """The text of the file; `no_models` says why none was found, where none was."""
    chosen = chosen_models(machine, models)
    sparse = [f"    {'' if chosen else '# '}{line}" for line in _SPARSE]
    lines = [
        f"# Drafted for this machine: {printable(str(machine))}.",
        f"# What a run would be like:  benchfleet plan {file}",
        f"# Run it:                    benchfleet run {file}",
        "",
        "# The name of the folder of results, and of the campaign in its ledger.",
        f"campaign: {_scalar(name)}",
        "",
        "# Where that folder goes. Relative paths start at this file.",
        "results: ./benchmark_results",
        "",
        "# What to use of the machine; without these lines, all its GPUs, or two slots of the CPU.",
        f"# gpus: [{', '.join(str(gpu.index) for gpu in machine.gpus) or '0'}]",
        "# max_concurrent_runs: 2",
        "",
        "# What holds wherever the matrix says nothing else.",
        "defaults:",
        "  repeats: 1  # each draws other data; more make a difference surer",
        "  # limits: {cell: 1h, tries: 3}",
        "  # generation: {max_new_tokens: 64, temperature: 0}",
        "",
        "# The product of its axes is run, a cell for each combination.",
        "matrix:",
        "  models:",
        *(_models(chosen, models) if chosen else _mock(no_models)),
        "",
        "  # What each token of the answer may look at. `benchfleet schema` knows the other names.",
        "  configs:",
        "    dense: null  # all of it: the baseline",
        *sparse,
        "",
        "  benchmarks:",
        "    - mock_benchmark  # five questions: is all set up right?",
        "    - recall: {subsets: [512, 1024], samples: 20}  # find a record in a text so long",
        "",
        "# Parts that are run one after the other; the next opens when the gate of the one before",
        "# holds. Cells that no phase takes may run at any time.",
        "# phases:",
        "#   - {name: check, only: {benchmarks: mock_benchmark}, gate: min(score) >= 0.8}",
        "#   - {name: study, only: {benchmarks: recall}}",
    ]
    return "\n".join(lines) + "\n"


def _models(chosen: Sequence[CachedModel], models: Sequence[CachedModel]) -> Iterator[str]:
    yield "    # Found in the Hugging Face cache. A folder is {name: …, path: ./folder}."
    for model in chosen:
        yield f"    - {_scalar(model.source)}  # takes about {gigabytes(model.memory)}"
    for model in models:
        if model not in chosen:
            yield f"    # - {_scalar(model.source)}  # takes about {gigabytes(model.memory)}"


def _mock(no_models: str) -> Iterator[str]:
    yield f"    # {printable(no_models)}"
    yield "    # A model is a hub name that was downloaded, or {name: …, path: ./folder}. This one"
    yield "    # only returns a fixed answer, for tests:"
    yield '    - {name: mock, adapter: mock, model_kwargs: {answer: "7"}}'


def _scalar(text: str) -> str:
    """The text as YAML reads it back."""
    return text if _PLAIN_SCALAR.fullmatch(text) else json.dumps(text, ensure_ascii=False)
