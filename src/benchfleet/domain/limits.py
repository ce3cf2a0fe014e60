"""What one cell may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a cell may take, and how often it may be tried; not part of its identity."""

    cell: float | None = None  # seconds
    tries: int = 3
    generation: float | None = None  # seconds of one call of the model, whole batches too
    stuck: float | None = None  # seconds in which nothing comes; None: by what is usual
    ram: int | None = None  # bytes that its slot and all that it started may hold
    disk: int | None = None  # bytes to be left free where the results lie, or nothing is begun
    sample_errors: float = 0.0  # the share of samples that may fail for good; they count as wrong
