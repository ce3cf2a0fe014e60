"""The contract of an exporter, which writes sealed results for another tool.

An exporter gets only sealed, undamaged results. It stores the fingerprint and the digest of each
result beside it, so that `digests` can say what is there. The caller compares them with the
campaign and calls `put` with what is new or has another digest. So a second export changes
nothing, and a cell that ran again replaces its earlier result.

`put` may be interrupted anywhere. A result counts as present only once its digest is stored; what
an interrupted `put` left of it is replaced by the next one.

An exporter is created from its destination, as ``--to NAME=WHERE`` has it, and the campaign's
name. The constructor opens nothing and raises `ExportError` for a wrong destination. Packages that
are not dependencies of benchfleet are imported in methods, and named in `requires` and `extra`.
Credentials come from the environment of the tool's own library, and no message shows them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from benchfleet import registry
from benchfleet.domain.cell import Cell


@dataclass(frozen=True, kw_only=True)
class ExportedResult:
    """One sealed result."""

    cell: Cell
    path: str  # its public path: model/config/benchmark[/repeat]
    digest: str  # SHA-256 of its cell.json
    score: float  # the headline; larger is better
    scale: float = 1.0  # of its scores, where the benchmark's harness has 0 to 1
    stderr: float | None  # None where the benchmark reports none
    summary: Mapping[str, Any] = field(default_factory=dict)  # of metrics.json
    tasks: Mapping[str, float] = field(default_factory=dict)  # scores of parts of the benchmark
    provenance: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)  # by stage: load, benchmark, …
    began: float  # seconds since the epoch
    ended: float
    folder: Path  # where its files are
    # Reads ``samples.jsonl``, by index; every text can be encoded.
    samples: Callable[[], Sequence[Mapping[str, Any]]]

    @property
    def fingerprint(self) -> str:
        """The identity of its cell."""
        return self.cell.fingerprint

    @property
    def scored_samples(self) -> int | None:
        """How many samples the score is over; None where its benchmark has none."""
        count = self.summary.get("samples")
        return count - int(self.summary.get("unscored", 0)) if isinstance(count, int) else None

    @property
    def metrics(self) -> dict[str, float]:
        """Every number of it by name: the headline, its error, the summary's and the parts'."""
        numbers = {"score": self.score}
        if self.stderr is not None:
            numbers["stderr"] = self.stderr
        for name, value in {**self.summary, **self.tasks}.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                numbers.setdefault(name, float(value))
        numbers.pop("overall_score", None)  # the headline's name in files
        return numbers


class Exporter(registry.Plugin, ABC):
    """Writes results for one tool; see the module for the whole contract."""

    destination: ClassVar[str]  # what WHERE is, such as "a folder", for --help
    where: str  # the destination as messages show it, without credentials
    hint: str = ""  # what to do next with what was exported, for people

    def __init__(self, where: str, campaign: str) -> None:
        self.where, self.campaign = where, campaign

    @abstractmethod
    def digests(self) -> Mapping[str, str]:
        """The digest of each result that is there, by fingerprint. Raises `ExportError`."""

    @abstractmethod
    def put(self, results: Sequence[ExportedResult]) -> None:
        """Store these results; each replaces what is there of its cell. Raises `ExportError`."""
