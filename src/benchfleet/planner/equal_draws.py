"""Several answers to each question that can only be the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchfleet.domain.cell import Cell


def equal_draws(cells: Iterable[Cell]) -> Iterator[str]:
    """A warning for each benchmark that asks each question several times at temperature 0.

    A harness may set a temperature of its own where the campaign sets none: it warns as it runs.
    """
    counts = {
        cell.workload.name: cell.workload.samples_per_question
        for cell in cells
        if cell.workload.samples_per_question > 1
        and cell.workload.generation.get("temperature") == 0
    }
    for name, count in counts.items():
        yield (
            f"warning: {name} asks for {count} answers to each question at temperature 0, so all "
            "are the same; set generation: {temperature: 0.7}, or remove samples_per_question"
        )
