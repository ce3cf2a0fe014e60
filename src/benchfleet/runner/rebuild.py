"""Making a ledger again from what is published: the way out of a lost or damaged one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.resource import Offer
from benchfleet.errors import ResultsError
from benchfleet.ledger.base import Ledger
from benchfleet.results.layout import Layout
from benchfleet.results.read import published_folders, sealed


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """What a rebuild found."""

    taken: int  # results that the ledger did not know
    known: int
    refused: tuple[tuple[str, str], ...]  # path and reason

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def rebuild(ledger: Ledger, layout: Layout) -> Rebuilt:
    """Enter every published result into the ledger, each as the success that it is.

    Folders whose cell.json cannot be read, or whose path belongs to another cell, are left out
    by name.
    """
    found, refused = _published(layout.root)
    with_plain_paths_first = sorted(found.items(), key=lambda item: "@" in item[0])
    ledger.enroll(cell for _, (cell, _, _) in with_plain_paths_first)
    records = {record.path: record for record in ledger.cells()}
    taken = known = 0
    for path, (cell, cell_json, digest) in with_plain_paths_first:
        record = records.get(path)
        if record is None or record.fingerprint != cell.fingerprint:
            refused.append((path, "the ledger has another path for this cell"))
        elif record.state == "success":
            known += 1
        else:
            _enter(ledger, cell, cell_json, digest)
            taken += 1
    return Rebuilt(taken=taken, known=known, refused=tuple(refused))


def _published(
    root: Path,
) -> tuple[dict[str, tuple[Cell, dict[str, Any], str]], list[tuple[str, str]]]:
    found, refused = {}, []
    for folder in published_folders(root):
        path = folder.relative_to(root).as_posix()
        try:
            cell_json, digest = sealed(folder)
            cell = Cell.from_dict(cell_json["cell"])
        except (ResultsError, KeyError, TypeError) as error:
            refused.append((path, str(error)))
            continue
        if cell.fingerprint != cell_json["fingerprint"]:
            refused.append((path, "its fingerprint is not that of its cell"))
        else:
            found[path] = (cell, cell_json, digest)
    return found, refused


def _enter(ledger: Ledger, cell: Cell, cell_json: dict[str, Any], digest: str) -> None:
    """Claim and finish a cell that is done, by the verbs that every ledger has."""
    offer = Offer(gpus=2**31, vram=2**62, among=frozenset({cell.fingerprint}))
    for claim in ledger.claim(RunnerId("rebuild"), offer, 1):
        outcome = Outcome(
            state="success",
            digest=digest,
            metrics=cell_json["metrics"],
            seconds=cell_json["seconds"],
            host=cell_json["provenance"].get("host", ""),
            device=cell_json["provenance"].get("device", ""),
        )
        ledger.finish(claim.lease, outcome)
