"""A Markdown table of scores: benchmarks × configs of one model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchfleet.domain.plain_text import markdown_text


@dataclass(frozen=True, kw_only=True)
class Score:
    """The score of one result."""

    config: str
    benchmark: str
    value: float
    stderr: float | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Score:
        """Of a row with config, benchmark, subset, score and stderr."""
        subset = row.get("subset")
        name = str(row["benchmark"]) if subset is None else f"{row['benchmark']}_{subset}"
        return cls(
            config=str(row["config"]), benchmark=name, value=row["score"], stderr=row["stderr"]
        )


def score_table(scores: Iterable[Score]) -> str:
    """The table; several results of one entry, such as repeats, as their mean.

    The error of a mean of n results is the root of the summed squares of their errors, over n.
    """
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.benchmark, score.config), []).append(score)
    configs = list(dict.fromkeys(config for _, config in groups))
    lines = [_row(["benchmark", *map(markdown_text, configs)]), _row(["---"] * (1 + len(configs)))]
    for benchmark in dict.fromkeys(benchmark for benchmark, _ in groups):
        cells = [_text(groups.get((benchmark, config), [])) for config in configs]
        lines.append(_row([markdown_text(benchmark), *cells]))
    return "\n".join(lines)


def _text(scores: list[Score]) -> str:
    if not scores:
        return ""
    mean = sum(score.value for score in scores) / len(scores)
    errors = [score.stderr for score in scores if score.stderr is not None]
    if len(errors) < len(scores):
        return f"{mean:.3f}"
    return f"{mean:.3f} ± {math.sqrt(sum(e * e for e in errors)) / len(errors):.3f}"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
