"""A campaign with two results, made as a runner makes them, for those who care for its folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from benchfleet.domain.attempt import CellRecord, Claim, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.maintenance.repair import Repaired, repair
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish
from benchfleet.results.verify import Finding, Verifier
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.testing import sample_cell

SAMPLES = 3


class Study:
    """A campaign with two results, made as a runner makes them."""

    def __init__(self, root: Path) -> None:
        self.layout, self.ledger = Layout(root), MemoryLedger()
        self.one, self.two = self.finish(sample_cell(1)), self.finish(sample_cell(2))

    def finish(
        self,
        cell: Cell,
        *,
        rename: bool = True,
        before: Callable[[AttemptFolder], None] = lambda folder: None,
    ) -> str:
        """Run a cell to its end, with `before` the seal; its path."""
        claim = self.claim(cell)
        folder = AttemptFolder(self.layout.attempt(claim.lease))
        for index in range(SAMPLES):
            answer = f"answer {index} of {cell.fingerprint[:8]}"
            sample = {"index": index, "id": f"s{index}", "columns": {}, "predicted_answer": answer}
            folder.record(json.dumps(sample).encode() + b"\n")
        folder.append("extra/raw.bin", b"more")
        before(folder)
        score = {"overall": 0.5, "per_sample": [1.0, 0.0, 0.5], "tasks": {}, "summary": {}}
        verdict = Verdict(score=score, seconds={"load": 1.0}, provenance={"host": "here"})
        sealed = folder.seal(cell, claim.path, verdict)
        outcome = Outcome(state="success", digest=sealed.digest, metrics=sealed.metrics)
        self.ledger.finish(claim.lease, outcome)
        if rename:
            publish(folder.folder, self.layout.published(claim.path))
        return claim.path

    def claim(self, cell: Cell) -> Claim:
        self.ledger.enroll([cell])
        (claim,) = self.ledger.claim(RunnerId("me"), [cell.fingerprint])
        return claim

    def folder(self, path: str) -> Path:
        return self.layout.published(path)

    def look(self, *, quick: bool = False) -> list[Finding]:
        records = list(self.ledger.cells())
        verifier = Verifier(self.layout, records, quick=quick)
        found = [one for one in map(verifier.look, records) if one]
        known = {one.path for one in found}
        return found + [one for one in verifier.unknown() if one.path not in known]

    def kinds(self, *, quick: bool = False) -> dict[str, str]:
        return {one.path: one.kind for one in self.look(quick=quick)}

    def repair(self, moment: str = "now") -> list[Repaired]:
        return list(repair(self.ledger, self.layout, self.look(), moment=moment))

    def states(self) -> dict[str, str]:
        return {record.path: record.state for record in self.ledger.cells()}

    def record(self, path: str) -> CellRecord:
        return next(record for record in self.ledger.cells() if record.path == path)

    def evidence(self, moment: str = "now") -> set[str]:
        root = self.layout.evidence / moment
        return {file.parent.relative_to(root).as_posix() for file in root.rglob("log.txt")}
