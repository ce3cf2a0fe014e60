"""Joins what the parts of a split cell recorded, for the attempt that scores the whole."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchfleet.domain.attempt import CellRecord
from benchfleet.errors import ResultsError
from benchfleet.results.layout import SAMPLES, Layout
from benchfleet.results.read import sealed
from benchfleet.results.samples import earlier_samples, sample_lines


@dataclass(frozen=True, kw_only=True)
class Joined:
    """What the parts of a cell have to say."""

    recorded: bytes = b""  # their samples, as JSON lines
    complete: bool = False  # every part ended well, and its result is here
    seconds: Mapping[str, float] = field(default_factory=dict)  # of all parts together
    provenance: Mapping[str, Any] = field(default_factory=dict)  # of the first part's model
    parts: Sequence[Mapping[str, Any]] = ()  # host, device and seconds of each, for provenance
    paths: Sequence[str] = ()  # of their results


def join(layout: Layout, parts: Sequence[CellRecord]) -> Joined:
    """Join the parts by their results here; of one without a result, what its attempts left here.
    Samples that are missing are asked by the attempt at the whole cell."""
    lines: list[bytes] = []
    seconds: Counter[str] = Counter()
    described: list[dict[str, Any]] = []
    provenance: Mapping[str, Any] = {}
    complete = bool(parts)
    for record in parts:
        seal = published_part(layout, record)
        if seal is None:
            complete = False
            lines.append(earlier_samples(layout.attempts_of(record.fingerprint)))
            continue
        lines += _samples(layout, record)
        seconds.update(seal["seconds"])
        origin = seal["provenance"]
        provenance = provenance or origin.get("model", {})
        described.append(
            {"host": origin.get("host"), "device": origin.get("device"), "seconds": seal["seconds"]}
        )
    return Joined(
        recorded=b"".join(lines),
        complete=complete,
        seconds=seconds,
        provenance=provenance,
        parts=described,
        paths=[record.path for record in parts],
    )


def published_part(layout: Layout, record: CellRecord) -> dict[str, Any] | None:
    """The seal of a part's result in this folder; None if it is not here."""
    if record.state != "success" or record.outcome is None:
        return None
    try:
        content, digest = sealed(layout.published(record.path))
    except ResultsError:
        return None
    return content if digest == record.outcome.digest else None


def _samples(layout: Layout, record: CellRecord) -> Iterator[bytes]:
    for sample in sample_lines(layout.published(record.path) / SAMPLES):
        yield json.dumps(sample).encode() + b"\n"
