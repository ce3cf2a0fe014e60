"""The log format of a git ledger: commits whose messages hold facts as JSON."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchfleet.domain.names import entry_name, path_part
from benchfleet.errors import LedgerDamaged, LedgerTooNew
from benchfleet.git.objects import EMPTY_TREE, Commit, Objects

FORMAT = 2  # 1 recorded each cell's lane and priority, too
_GZIP = b"\x1f\x8b"  # how a file begins that is compressed
CELLS_PER_FILE = 10_000  # cells in one file of an enrolment
MAX_LEASE_S = 86400.0  # seconds; a longer lease in a claim or a heartbeat is ignored
_ACTED = {
    "claimed": "claim",
    "finished": "finish",
    "released": "release",
    "reaped": "reap",
    "campaign_told": "record the campaign",
    "results_told": "report the results",
    "slots_asked": "request slots",
    "slots_told": "answer a request for slots",
}


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One event of a ledger, and which one of its cell's it is."""

    kind: str
    fingerprint: str
    data: Mapping[str, Any]
    at: float  # by the clock of its installation; for people only
    turn: int = 0  # 1 for the first thing that changed the cell or subject; 0: it changes none


@dataclass(frozen=True, kw_only=True)
class Entered:
    """A cell as an enrolment tells it."""

    fingerprint: str
    id: str
    path: str
    spec: str
    terms: str


@dataclass(frozen=True, kw_only=True)
class Changed:
    """New terms of a known cell, as an enrolment has them."""

    fingerprint: str
    terms: str


@dataclass(frozen=True, kw_only=True)
class Enrolment:
    """The cells that an enrolment brought or changed, and its event."""

    fact: Fact
    cells: Sequence[Entered] = ()
    changed: Sequence[Changed] = field(default_factory=list)


def subject(facts: Sequence[Fact], ids: Mapping[str, str]) -> str:
    """What a commit did, as people read it: ``claim <entry>``."""
    first = facts[0]
    verb = _ACTED.get(first.kind, first.kind.replace("_", " "))
    name = entry_name(ids[first.fingerprint]) if first.fingerprint in ids else first.fingerprint
    more = f" and {len(facts) - 1} more" if len(facts) > 1 else ""
    return f"{verb} {name}{more}".strip()


def message(subject: str, **payload: Any) -> str:
    """A commit's message: a line for people, then JSON."""
    text = json.dumps({"benchfleet": FORMAT, **payload}, ensure_ascii=True)
    return f"{subject}\n\n{text}\n"


def payload(commit: Commit) -> dict[str, Any]:
    """The JSON in a commit's message. Raises LedgerTooNew, LedgerDamaged."""
    _, _, text = commit.message.partition("\n\n")
    try:
        content = json.loads(text)
        format = int(content["benchfleet"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise LedgerDamaged(f"the commit {commit.oid} is none of a ledger's: {error}") from error
    if format > FORMAT:
        raise LedgerTooNew(
            f"the commit {commit.oid} was written by a newer benchfleet: its format is {format}, "
            f"this one knows {FORMAT}; upgrade benchfleet (nothing was touched)"
        )
    return dict(content)


def written(facts: Iterable[Fact]) -> list[list[Any]]:
    """Facts as JSON values."""
    return [[f.kind, f.fingerprint, f.at, f.turn, f.data] for f in facts]


def facts_of(commit: Commit) -> list[Fact]:
    """The facts of a commit of a log. Raises LedgerDamaged."""
    try:
        return [
            Fact(kind=kind, fingerprint=fingerprint, at=at, turn=turn, data=data)
            for kind, fingerprint, at, turn, data in payload(commit)["facts"]
        ]
    except (ValueError, LookupError, TypeError) as error:
        raise LedgerDamaged(f"the commit {commit.oid} tells nothing readable: {error}") from error


def lease_data(seconds: float) -> dict[str, float]:
    """What a claim and a heartbeat say of their leases: how long others let them last."""
    return {"lease": seconds}


def lease_seconds(data: Mapping[str, Any], default: float) -> float:
    """The lease of a claim or a heartbeat, in seconds. `default` without a valid one: an older
    benchfleet wrote it, or something else did."""
    seconds = data.get("lease")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        return default
    return float(seconds) if 0.0 < seconds <= MAX_LEASE_S else default


def compressed(lines: Iterable[str]) -> bytes:
    """Lines as the content of a file. A server looks long for what two large files have in common
    before it gives them out, so they are made small first."""
    return gzip.compress("\n".join(lines).encode(), 4, mtime=0)


def lines_of(content: bytes) -> list[str]:
    """The lines of such a file, or of a plain one. Raises ValueError."""
    try:
        plain = gzip.decompress(content) if content.startswith(_GZIP) else content
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"it cannot be unpacked: {error}") from error
    return plain.decode().removesuffix("\n").split("\n")


def enrolment_tree(objects: Objects, enrolment: Enrolment) -> str:
    """Write the cells of an enrolment down; the folder that holds them."""
    files: dict[str, tuple[str, bool]] = {}
    for name, rows in (
        ("cells", [[c.fingerprint, c.id, c.path, c.spec, c.terms] for c in enrolment.cells]),
        ("changed", [[c.fingerprint, c.terms] for c in enrolment.changed]),
    ):
        for number, start in enumerate(range(0, len(rows), CELLS_PER_FILE)):
            content = compressed(json.dumps(row) for row in rows[start : start + CELLS_PER_FILE])
            files[f"{name}-{number:05}.jsonl.gz"] = objects.blob(content), False
    return objects.tree(files) if files else EMPTY_TREE


def enrolment_of(objects: Objects, commit: Commit) -> Enrolment:
    """The enrolment of a commit. Raises LedgerDamaged, also for a path that leads elsewhere."""
    (fact,) = facts_of(commit)
    cells, changed = [], []
    try:
        for name, (blob, _) in sorted(objects.entries(commit.tree)):
            for row in map(json.loads, lines_of(objects.read(blob)[1])):
                if name.startswith("cells-"):
                    fingerprint, id, path, *_, spec, terms = row
                    _refuse_outside_path(commit, id, path)
                    cells.append(
                        Entered(fingerprint=fingerprint, id=id, path=path, spec=spec, terms=terms)
                    )
                elif name.startswith("changed-"):
                    fingerprint, *_, terms = row
                    changed.append(Changed(fingerprint=fingerprint, terms=terms))
    except (ValueError, TypeError) as error:
        raise LedgerDamaged(f"the enrolment {commit.oid} cannot be read: {error}") from error
    return Enrolment(fact=fact, cells=cells, changed=changed)


def _refuse_outside_path(commit: Commit, *paths: str) -> None:
    """Folders are made from these paths, so no part may lead outside."""
    for path in paths:
        for part in path.split("/"):
            plain = part[:-9] if part[-9:-8] == "@" else part  # marked with a fingerprint
            if path_part(plain) != plain:
                raise LedgerDamaged(
                    f"the enrolment {commit.oid} names {path!r}, which is not a path"
                )
