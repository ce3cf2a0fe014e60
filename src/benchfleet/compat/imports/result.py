"""A result of another harness, before it is known of which cell it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchfleet.errors import BenchfleetError


class UnreadableResult(BenchfleetError):
    """A file that is not a whole result, with what is wrong."""


@dataclass(frozen=True, kw_only=True)
class ForeignResult:
    """One result, as its harness wrote it."""

    file: Path
    harness: str  # with its version, if the file names it
    model: str
    benchmark: str  # the harness's name of the task, or benchfleet's of the benchmark
    subset: str | None = None
    config: str = ""  # its name; "" where the harness has none
    overall: float | None = None  # None: chosen by the cell from `metrics`
    headline: str | None = None  # its name in `metrics`, where the harness says it
    metrics: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, float] = field(default_factory=dict)  # the standard error, by metric
    higher_is_better: Mapping[str, bool] = field(default_factory=dict)
    samples: Sequence[Mapping[str, Any]] = ()  # as records of `samples.jsonl`
    per_sample: Mapping[str, Sequence[float]] = field(
        default_factory=dict
    )  # by metric; ``overall_score`` with `overall`
    parsed: Mapping[str, Sequence[str]] = field(
        default_factory=dict
    )  # what was taken from each text, by metric
    answered: int | None = None  # documents
    samples_per_question: int = 1  # answers to each of them
    limit: int | None = None  # None: all
    seconds: float | None = None
    load: Mapping[str, Any] = field(default_factory=dict)  # of a load test: concurrency, or rate
    summary: Mapping[str, Any] = field(default_factory=dict)  # of the score, as benchfleet has it
    settings: Mapping[str, Any] = field(default_factory=dict)  # for the provenance

    @property
    def name(self) -> str:
        """How messages name it."""
        parts = (self.model, self.config, self.benchmark, self.subset)
        return f"{self.file.name} ({' '.join(part for part in parts if part)})"


def sample(index: int, identity: Any, question: str, answer: str, predicted: str) -> dict[str, Any]:
    """A record of `samples.jsonl`."""
    return {
        "index": index,
        "id": str(identity),
        "columns": {"question": question, "answer": answer},
        "predicted_answer": predicted,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "seconds": 0.0,
        "measures": {},
    }
