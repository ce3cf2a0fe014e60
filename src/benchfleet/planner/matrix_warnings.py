"""What a matrix asks for that has no effect, as warnings before it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.domain.cell import Cell


def matrix_warnings(cells: Sequence[Cell]) -> Iterator[str]:
    """One line for each."""
    yield from _equal_answers(cells)
    yield from _unread_draws(cells)
    yield from _unread_settings(cells)


def _equal_answers(cells: Iterable[Cell]) -> Iterator[str]:
    """Benchmarks that ask each question several times at temperature 0.

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


def _unread_draws(cells: Iterable[Cell]) -> Iterator[str]:
    """Benchmarks that ask and score in one, for which several answers to a question are wanted."""
    works = (cell.workload for cell in cells if cell.workload.samples_per_question > 1)
    kinds = {work.name: benchmark_class(work.benchmark) for work in works}
    for name, kind in kinds.items():
        if not (kind.needs_model and kind.rescores):
            yield (
                f"warning: {name} asks by itself: samples_per_question changes nothing; let its "
                "code ask each question so often"
            )


def _unread_settings(cells: Iterable[Cell]) -> Iterator[str]:
    """Configs whose settings are passed on to no benchmark of their cells."""
    benchmarks: dict[str, set[str]] = {}
    for cell in cells:
        if cell.config.settings:
            benchmarks.setdefault(cell.config.name, set()).add(cell.workload.benchmark)
    for name, plugins in benchmarks.items():
        if not any(benchmark_class(plugin).reads_settings for plugin in plugins):
            yield (
                f"warning: no benchmark of config {name} reads its settings, so they change no "
                "score; only scripts get them"
            )
