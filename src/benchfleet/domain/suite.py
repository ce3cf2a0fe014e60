"""A suite: several benchmarks with one score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

SuiteMean = Literal["macro", "micro", "weights"]
SUITE_MEANS: tuple[SuiteMean, ...] = get_args(SuiteMean)


@dataclass(frozen=True, kw_only=True)
class Part:
    """One entry of a suite: a benchmark with some or all of its subsets, which count equally."""

    name: str  # as the campaign names it
    workloads: tuple[str, ...]  # `Workload.full_name` of each, at least one
    weight: float = 1.0  # of the mean `weights`


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Benchmarks whose scores make one score.

    ``macro`` is the mean of the parts, ``micro`` the mean of all samples, and ``weights`` the mean
    of the parts by their weights.
    """

    name: str
    parts: tuple[Part, ...]  # at least one
    mean: SuiteMean = "macro"

    @property
    def workloads(self) -> list[str]:
        """All that it needs a result of."""
        return [workload for part in self.parts for workload in part.workloads]

    def weights(self, samples: Mapping[str, int]) -> dict[str, float]:
        """The share of each workload in the score, 1 together; `samples` counts those of each."""
        if self.mean == "micro":
            shares = {name: float(samples[name]) for name in self.workloads}
        else:
            shares = {
                name: part.weight / len(part.workloads)
                for part in self.parts
                for name in part.workloads
            }
        total = sum(shares.values())
        return {name: share / total for name, share in shares.items()}

    def to_dict(self) -> dict[str, Any]:
        """JSON values only; `from_dict` gives the same suite back."""
        parts = [{**vars(part), "workloads": list(part.workloads)} for part in self.parts]
        return {"name": self.name, "mean": self.mean, "parts": parts}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Suite:
        parts = tuple(
            Part(name=one["name"], workloads=tuple(one["workloads"]), weight=one["weight"])
            for one in value["parts"]
        )
        return cls(name=value["name"], mean=value["mean"], parts=parts)
