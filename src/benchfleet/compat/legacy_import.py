"""Import a repository of earlier tools: publish its results, or draft a campaign for them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import product
from typing import Any

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.domain.progress_callback import ProgressCallback, ignore_progress
from benchfleet.ledger.base import Ledger
from benchfleet.results.disk import read_plain
from benchfleet.results.layout import Layout
from benchfleet.results.write import AttemptFolder, Verdict

from .import_cells import Published, publish_results, sealed_outcome
from .legacy_repository import Entry, Repository, number

_RUNNER = RunnerId("import")
_FILE = "imported.json"  # the result as it was
_MAX_OPEN_QUESTIONS = 20


def import_results(
    ledger: Ledger,
    layout: Layout,
    results: Iterable[tuple[Cell, Entry]],
    *,
    source: str,
    runner: RunnerId = _RUNNER,
    pause: Callable[[float], None] = time.sleep,
    seen: ProgressCallback = ignore_progress,
) -> Published[Entry]:
    """Publish each result as its cell's, which is enrolled; `source` is where they come from."""
    seal = partial(_sealed, source=source)
    return publish_results(ledger, layout, results, seal, runner=runner, pause=pause, seen=seen)


def _sealed(
    folder: AttemptFolder, claim: Claim, cell: Cell, entry: Entry, *, source: str
) -> Outcome:
    content = dict(entry.content or {})
    folder.append(_FILE, (json.dumps(content, indent=2) + "\n").encode())
    log = b""
    if entry.raw is not None:
        with contextlib.suppress(OSError):
            log = read_plain(entry.raw)
    folder.log.write_bytes(log)
    numbers = {n: v for n, value in content.items() if (v := number(value)) is not None}
    if entry.score is not None:  # short results call it otherwise
        numbers.setdefault("success_rate", entry.score)
    verdict = Verdict(
        score={"overall": entry.score, "per_sample": [], "tasks": {}, "summary": numbers},
        seconds=_stage_seconds(numbers),
        provenance={"imported_from": source, "entry": entry.name, "host": entry.host},
    )
    return sealed_outcome(folder, claim, cell, verdict, host=entry.host)


def _stage_seconds(numbers: Mapping[str, float]) -> dict[str, float]:
    """Loading and computing, from ``time_s``, ``total_time_s`` or the sum of the ``…_time_s``."""
    times = {n: float(v) for n, v in numbers.items() if n == "time_s" or n.endswith("_time_s")}
    whole = times.pop("total_time_s", None)
    whole = times.pop("time_s", None) if whole is None else whole
    times.pop("time_s", None)
    load = max(0.0, times.get("load_time_s", 0.0))
    if whole is None:
        whole = sum(times.values()) if times else None
    if whole is None or whole < 0:
        return {}
    stages = {"load": load, "benchmark": max(0.0, whole - load)}
    return {name: value for name, value in stages.items() if value or name == "benchmark"}


def summarize(repository: Repository) -> dict[str, Any]:
    """What the repository holds, by kind."""
    entries = repository.entries
    return {
        "root": str(repository.root),
        "entries": len(entries),
        "phases": {p: sum(p in entry.phases for entry in entries) for p in repository.phases},
        "results": sum(entry.done for entry in entries),
        "empty phase lists": list(repository.empty_lists),
        "lines that are not result names": [
            e.name for e in entries if e.phases and not e.is_result_name
        ],
        "to do": [  # errors run again, also those that left their list
            e.name for e in entries if (e.phases or e.error) and e.is_result_name and not e.done
        ],
        "results whose content disagrees with their name": [
            e.name for e in entries if e.contradicts_name
        ],
        "in no list": [e.name for e in entries if e.content is not None and not e.phases],
        "done, and still in a list": [e.name for e in entries if e.done and e.phases],
        "errors that counted as done": [f"{e.name}: {e.error}" for e in entries if e.error],
        "claimed and never finished": [
            f"{e.name} by {', '.join(e.claims)}" for e in entries if e.claims and not e.done
        ],
        "names without a unique reading": [
            e.name for e in entries if e.parts is None and e.is_result_name
        ],
        "could not be read": [f"{file}: {why}" for file, why in repository.unreadable],
    }


def campaign_draft(repository: Repository) -> str:
    """A campaign file of what is known; its owner adds how a cell runs."""
    lines = ['"""Phases as they were found; a phase runs all combinations of its axes."""', ""]
    lines += ["from benchfleet import PhaseDefinition", "", "PHASES = ["]
    listed: set[Any] = set()  # a cell is of the first phase that has it
    for phase in [*repository.phases, ""]:
        if phase:
            of = [e.parts for e in repository.entries if e.parts and phase in e.phases]
        else:  # results that no list has, as far as no phase would have them anyway
            of = [e.parts for e in repository.entries if e.parts and e.content is not None]
            of = [parts for parts in of if parts not in listed]
        if not of:
            continue
        axes = [list(dict.fromkeys(part[n] for part in of)) for n in range(3)]
        reruns = max(part[3] for part in of) + 1
        cells = set(product(*axes, range(reruns)))
        if cells <= listed:
            all_cells = counted(len(cells), "cell")
            lines.append(f"    # {phase!a}: phases above have all of its {all_cells}")
            continue
        listed |= cells
        lines += [
            "    PhaseDefinition(",
            f"        phase={phase or 'unlisted'!r},",
            f"        levels={axes[0]!r},",
            f"        models={axes[1]!r},",
            f"        configs={axes[2]!r},",
            f"        reruns={reruns},",
            "    ),",
        ]
    lines += ["]", ""]
    open_names = [e.name for e in repository.entries if e.parts is None and e.is_result_name]
    if open_names:
        names = counted(len(open_names), "name")
        lines.append(f"# Open question: which level, model and config is meant? ({names})")
        lines += [f"#   {name!a}" for name in open_names[:_MAX_OPEN_QUESTIONS]]
        if len(open_names) > _MAX_OPEN_QUESTIONS:
            lines.append("#   … (`benchfleet phase import --details` lists all)")
        lines.append("")
    lines += ["# How one of them is run: its last line of output is its result as JSON."]
    lines += ["# RUN = ['python', 'run.py', '{benchmark}', '{model}', '{config_name}', '{repeat}']"]
    return "\n".join(lines) + "\n"
