"""What a resumed load point keeps of the segments that earlier attempts measured.

A load cannot be continued as the same one: queues and caches are empty again. So a segment that is
long enough is kept, and the rest runs as another segment with a warm-up of its own. A shorter one
is left out, and the point starts again.
"""

from __future__ import annotations

from collections import Counter

from benchfleet.benchmarks.serving.point import Measured

LEAST_KEPT_S = 60.0
LEAST_KEPT_SHARE = 0.5  # of the point


def usable(measured: Measured, duration_s: float, requests: int | None) -> Measured:
    """The segments that count. A complete one always does."""
    counts = Counter(one.segment for one in measured.requests)
    kept_segments, seconds, number = set[int](), 0.0, 0
    for segment, span in measured.spans().items():
        share = (seconds + span) / duration_s
        if requests is not None:
            share = max(share, (number + counts[segment]) / requests)
        if share >= 1 or (span >= LEAST_KEPT_S and share >= LEAST_KEPT_SHARE):
            kept_segments.add(segment)
            seconds, number = seconds + span, number + counts[segment]
    left_out = measured.requests and len(kept_segments) < len(counts)
    return Measured(
        requests=[one for one in measured.requests if one.segment in kept_segments],
        first_segment=1 + max(counts, default=-1) if left_out else 0,
        first_index=measured.next_index if left_out else 0,
    )


def part_left(
    measured: Measured, duration_s: float, requests: int | None
) -> tuple[float, int | None]:
    """Seconds and requests that are left of a point; 0 of either: it is complete."""
    left_s = max(0.0, duration_s - sum(measured.spans().values()))
    if requests is None:
        return left_s, None
    return left_s, max(0, requests - len(measured.requests))
