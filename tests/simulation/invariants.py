"""What must hold of a campaign whatever happened to its runners, judged from outside."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchfleet.domain.event import Event
from benchfleet.domain.state import STATES
from benchfleet.results import layout as names
from benchfleet.results.read import damage, published_folders, sealed
from benchfleet.results.samples import read_samples

# Readings are kept of cells that take long enough, which a cell may do on a busy machine alone.
_TOLD_ELSEWHERE = frozenset(
    {names.SAMPLES, names.METRICS, names.RAW_RESULTS, names.LOG, names.TELEMETRY}
)
# A draft of a ledger whose maker was killed is removed by a run that comes a minute later.
_OURS = re.compile(
    r"\.ledger\.db\.[0-9a-f]{32}(-wal|-shm)?|\.folder(\.[0-9a-f]{32})?|\.ledger|ledger\.db(-wal|-shm)?|"
    r"\.attempts|\.slots|\.runners|\.evidence|\.archive|\.outbox|\.arrivals|"
    r"execution_summary\.json|report\.\w+"
)


def wrong_history(events: Iterable[Event], expiries: Mapping[tuple[str, int], float]) -> list[str]:
    """The wrong claims in a ledger's events; `expiries` are the ends of
    leases that were seen, by fingerprint and token, on the ledger's clock."""
    wrong: list[str] = []
    held: dict[str, int] = {}  # the token that holds a cell
    newest: dict[str, int] = {}
    succeeded: set[str] = set()
    for event in events:
        cell, token = event.fingerprint, event.data.get("token", 0)
        what = f"event {event.seq}: cell {cell[:8]}, token {token}"
        if event.kind == "claimed":
            if cell in held:
                wrong.append(f"{what} was claimed while token {held[cell]} held it")
            if token <= newest.get(cell, 0):
                wrong.append(f"{what} is not above {newest[cell]}")
            if cell in succeeded:
                wrong.append(f"{what} was claimed after it had succeeded")
            held[cell] = newest[cell] = token
        elif event.kind == "finished":
            if token != newest.get(cell) or held.get(cell, token) != token:
                wrong.append(f"{what} was finished though a newer claim was there")
            if event.data["outcome"]["state"] == "success":
                if cell in succeeded:
                    wrong.append(f"{what} succeeded a second time")
                succeeded.add(cell)
            held.pop(cell, None)
        elif event.kind in ("released", "reaped"):
            if held.pop(cell, None) != token:
                wrong.append(f"{what} was {event.kind} and not held")
            if event.kind == "reaped" and event.at < expiries.get((cell, token), 0.0):
                wrong.append(f"{what} was reaped before its lease ran out")
        elif event.kind == "cancel_asked":
            held.pop(cell, None)
        elif event.kind == "retry_asked":
            succeeded.discard(cell)
    return wrong


def wrong_results(root: Path, known: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the published folders; `known` are the digests of each path's cell.json
    as the ledger has them."""
    found = set()
    for folder in published_folders(root):
        path = folder.relative_to(root).as_posix()
        found.add(path)
        content, digest = sealed(folder)
        if known.get(path) != digest:
            yield f"{path} was published, and the ledger knows nothing of it"
        if what := damage(folder, content):
            yield f"{path}: {what}"
    yield from (f"{path} is done and not published" for path in sorted(known.keys() - found))


def leftovers(root: Path) -> Iterator[str]:
    """What lies in a campaign's folder and is neither a result nor a file of its own."""
    for entry in root.iterdir():
        if not (_OURS.fullmatch(entry.name) or (entry.is_dir() and entry.name[0] != ".")):
            yield entry.name
    for folder in (root / ".attempts").glob("*/*"):
        if not (folder / names.FAILURE).exists():
            yield folder.relative_to(root).as_posix()
    for folder in published_folders(root):
        for file in folder.rglob("*"):
            if file.name.startswith(".") or file.name.endswith(".scratch"):
                yield file.relative_to(root).as_posix()


def wrong_counts(status: Mapping[str, Any], summary: Mapping[str, Any], report: str) -> list[str]:
    """Where what is shown does not add up: ``status --json``, the summary and the report."""
    counts = {state: status[state] for state in STATES}
    wrong = []
    if sum(counts.values()) != status["total"]:
        wrong.append(f"status shows {counts} of {status['total']} cells")
    output = {state: summary["counts"][state] for state in STATES}
    if output != counts:
        wrong.append(f"status shows {counts}, and the summary {output}")
    if f"{status['total']} cells: {status['success']} success" not in report:
        wrong.append("the report does not show the counts of status")
    return wrong


def result_content(folder: Path) -> dict[str, Any]:
    """All that a published result says of its cell, by place, without times."""
    content, _ = sealed(folder)
    metrics = json.loads((folder / names.METRICS).read_bytes())
    found = {
        f"{names.SAMPLES}[{index}]{place}": value
        for index, record in read_samples(folder / names.SAMPLES).items()
        for place, value in _flat(record)
    }
    found |= {f"{names.METRICS}{place}": value for place, value in _flat(metrics)}
    found |= {n: digest for n, digest in content["files"].items() if n not in _TOLD_ELSEWHERE}
    return {place: value for place, value in found.items() if not place.endswith("seconds")}


def differences(
    found: Mapping[str, Any], one: Mapping[str, Any], other: Mapping[str, Any]
) -> list[str]:
    """Where a result differs from two undisturbed ones, in what is the same in both of them."""
    places = found.keys() | one.keys() | other.keys()
    missing = object()
    return sorted(
        f"{place} is {found.get(place, 'not there')!r:.80}, undisturbed {one.get(place)!r:.80}"
        for place in places
        if one.get(place, missing) == other.get(place, missing) != found.get(place, missing)
    )


def _flat(value: Any) -> Iterator[tuple[str, Any]]:
    parts: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        parts = ((f".{name}", part) for name, part in value.items())
    elif isinstance(value, list):
        parts = ((f"[{number}]", part) for number, part in enumerate(value))
    else:
        yield "", value
    for step, part in parts:
        for place, leaf in _flat(part):
            yield step + place, leaf
