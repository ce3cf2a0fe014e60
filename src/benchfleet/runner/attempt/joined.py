"""Joins what the parts of a split cell recorded, for the attempt that scores the whole."""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.sample_end import lacks_answer
from benchfleet.domain.usage import Usage
from benchfleet.errors import ResultsError
from benchfleet.results.layout import SAMPLES, Layout
from benchfleet.results.read import sealed, sealed_attempts
from benchfleet.results.samples import earlier_records, sample_lines

PEAKS = "ram", "gpu_memory"  # of `Usage`


@dataclass(frozen=True, kw_only=True)
class Joined:
    """What the parts of a cell have to say."""

    recorded: bytes = b""  # their samples, as JSON lines
    complete: bool = False  # every part ended well, and its result is here
    seconds: Mapping[str, float] = field(default_factory=dict)  # of all parts together
    provenance: Mapping[str, Any] = field(default_factory=dict)  # of the first part's model
    # host, device, seconds and batch size of each, for provenance
    parts: Sequence[Mapping[str, Any]] = ()
    peaks: Mapping[str, int] = field(default_factory=dict)  # of RAM and GPU memory, as in `Usage`
    paths: Sequence[str] = ()  # of results of parts, which nobody needs once the cell has its own

    def batch_size(self, own: int) -> int | None:
        """The one of all samples, of which the parts did not record all if `complete` is False:
        these were asked with the size `own`. None if several sizes were used."""
        sizes = {part["effective_batch_size"] for part in self.parts}
        sizes |= set() if self.complete else {own}
        return sizes.pop() if len(sizes) == 1 else None


def join(layout: Layout, parts: Sequence[CellRecord]) -> Joined:
    """Join the parts by their results here; of one without a result, what its attempts left here.
    Samples that are missing are asked by the attempt at the whole cell.

    A part may have failed samples of other parts, from an earlier attempt at the whole cell. So
    those without an answer come first: the last record of a sample counts."""
    samples: list[dict[str, Any]] = []
    seconds: Counter[str] = Counter()
    described: list[dict[str, Any]] = []
    provenance: Mapping[str, Any] = {}
    peaks: dict[str, int] = {}
    complete = bool(parts)
    for record in parts:
        result = part_result(layout, record)
        if result is None:
            complete = False
            samples += earlier_records(layout.attempts_of(record.fingerprint))
            continue
        folder, seal = result
        samples += sample_lines(folder / SAMPLES)
        seconds.update(seal["seconds"])
        origin = seal["provenance"]
        provenance = provenance or origin.get("model", {})
        keys = "host", "device", "effective_batch_size"
        described.append({**{key: origin.get(key) for key in keys}, "seconds": seal["seconds"]})
        usage = Usage.from_dict(seal.get("usage") or {})
        for name in PEAKS:
            peaks[name] = max(peaks.get(name, 0), getattr(usage, name))
    samples.sort(key=lambda sample: not lacks_answer(sample))
    return Joined(
        recorded="".join(json.dumps(sample) + "\n" for sample in samples).encode(),
        complete=complete,
        seconds=seconds,
        provenance=provenance,
        parts=described,
        peaks=peaks,
    )


def part_result(layout: Layout, record: CellRecord) -> tuple[Path, dict[str, Any]] | None:
    """The folder and the seal of a part's result; None if it is not here. One that could not be
    published, because something else lies at its place, waits under ``.attempts``."""
    if record.state != "success" or record.outcome is None:
        return None
    published, digest = layout.published(record.path), record.outcome.digest
    if (seal := _seal(published, digest)) is not None:
        return published, seal
    if not os.path.lexists(published):  # its own runner may rename it now
        return None
    attempts = sealed_attempts(layout, {record.fingerprint})
    return next(((one, seal) for one in attempts if (seal := _seal(one, digest))), None)


def _seal(folder: Path, digest: str) -> dict[str, Any] | None:
    """The seal of a folder; None without one of this digest."""
    with contextlib.suppress(ResultsError):
        content, own_digest = sealed(folder)
        return content if own_digest == digest else None
    return None
