"""Two sets of results to compare, with one benchmark or with two and a suite; and policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchfleet.domain.suite import Part, Suite, SuiteMean
from benchfleet.reports.release_policy import Rule, read_policy
from benchfleet.reports.side_by_side import Change, Side, changes
from benchfleet.results.read import SampleScores

from .conftest import Study

RIGHT = [1.0] * 90 + [0.0] * 10
SAME = [0.0] + [1.0] * 90 + [0.0] * 9  # one lost, one gained
WORSE = [0.0] * 40 + [1.0] * 60


def side(
    name: str, study: Study, *, only: str = "", fixed: str = "", suites: Sequence[Suite] = ()
) -> Side:
    cells = [cell for cell in study.cells if not only or cell.config.name == only]
    return Side(
        name=name,
        cells=cells,
        records=study.records,
        scores=lambda record: SampleScores(scores=study.samples[record.fingerprint]),
        fixed=frozenset({fixed} - {""}),
        suites=suites,
    )


def two(before: Sequence[float], after: Sequence[float], **place: Any) -> tuple[Side, Side]:
    first, second = Study(), Study()
    first.done("dense", before, **place)
    second.done("dense", after, **place)
    return side("old", first), side("new", second)


def suite(*names: str, mean: SuiteMean = "macro") -> Suite:
    parts = tuple(Part(name=name, workloads=(f"recall_{name}",)) for name in names)
    return Suite(name="core", mean=mean, parts=parts)


BOTH = suite("128", "512")


def of_suites(
    first: Mapping[str, Sequence[float]],
    second: Mapping[str, Sequence[float]],
    *,
    after: Suite = BOTH,
) -> Sequence[Change]:
    """Both sides with two benchmarks; the changes, the suite's last."""
    studies = Study(), Study()
    for study, values in zip(studies, (first, second), strict=True):
        for subset, some in values.items():
            study.done("dense", some, subset=subset)
    old = side("old", studies[0], suites=[BOTH])
    return changes(old, side("new", studies[1], suites=[after]))


def policy(*rules: dict[str, object]) -> tuple[Rule, ...]:
    return read_policy({"rules": list(rules)}, file="release.yaml")
