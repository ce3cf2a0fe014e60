"""What the parts of a split cell say of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.part import Split
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.runner.attempt.joined import Joined, join
from benchfleet.testing import sample_cell


def joined(folder: Path, sizes: Sequence[int], *, done: int) -> Joined:
    """Parts with these batch sizes, of which the first ones are `done` and the others pending."""
    layout, ledger = Layout(folder), MemoryLedger()
    parts = Split.evenly("f", 1, 1, len(sizes)).cells(sample_cell())
    ledger.enroll(parts)
    names = [str(part.fingerprint) for part in parts]
    for number, (part, size) in enumerate(zip(parts[:done], sizes, strict=False)):
        (claim,) = ledger.claim(RunnerId("me"), [names[number]])
        verdict = Verdict(
            score={"overall": 0.5, "per_sample": [], "tasks": {}, "summary": {}},
            seconds={"benchmark": 1.0},
            provenance={"host": "here", "effective_batch_size": size},
            usage={"seconds": 1.0, "ram": 100 * (number + 1), "gpu_memory": 7 - number},
        )
        attempt = AttemptFolder(layout.attempt(claim.lease))
        digest = attempt.seal(part, claim.path, verdict).digest
        publish(attempt.folder, layout.published(claim.path))
        ledger.finish(claim.lease, Outcome(state="success", digest=digest))
    return join(layout, list(ledger.cells(fingerprints=names)))


@pytest.mark.parametrize(
    ("sizes", "done", "own", "size"),
    [
        ([64, 64], 2, 1, 64),  # the join asked nothing
        ([64, 16], 2, 1, None),
        ([64, 64], 1, 64, 64),
        ([64, 64], 1, 32, None),
        ([64, 64], 0, 32, 32),
    ],
)
def test_the_batch_size_of_the_whole_is_that_of_all_its_samples(
    tmp_path: Path, sizes: Sequence[int], done: int, own: int, size: int | None
) -> None:
    assert joined(tmp_path, sizes, done=done).batch_size(own) == size


def test_the_peaks_are_the_largest_of_the_parts(tmp_path: Path) -> None:
    assert joined(tmp_path, [1, 1, 1], done=2).peaks == {"ram": 200, "gpu_memory": 7}
