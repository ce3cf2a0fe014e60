"""A range of a task's documents, which a part of a split cell asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchfleet.benchmarks.asking import context_digest

from .parts import ContextEnd


class _AllAsked(Exception):
    """Ends lm-eval's `evaluate` before it scores."""


@contextmanager
def only(task: Any, documents: range) -> Iterator[None]:
    """Within it, `evaluate` asks these documents of the task alone, and scores nothing.

    The requests of all are built first, so few-shot examples are those of the cell in one piece.
    """
    build = task.build_all_requests

    def build_all_requests(**settings: Any) -> None:
        build(**settings)
        task._instances = [one for one in task.instances if one.doc_id in documents]

    def apply_filters() -> None:  # the first step of scoring
        raise _AllAsked

    task.build_all_requests, task.apply_filters = build_all_requests, apply_filters
    try:
        yield
    except _AllAsked:
        pass
    finally:
        del task.build_all_requests, task.apply_filters


def boundaries(task: Any, count: int, context_end: ContextEnd | None) -> list[int]:
    """Where the first `count` documents of a task may be cut: not between two that are asked after
    the same context, so that one part reads it."""
    if context_end is None:
        return list(range(count))
    positions, before = [], None
    for position in range(count):
        context = _context(task, task.eval_docs[position], context_end)
        if context is None or context != before:
            positions.append(position)
        before = context
    return positions


def _context(task: Any, doc: Any, context_end: ContextEnd) -> str | None:
    """The digest of a document's context; None if it has none, which the attempt will report."""
    text = str(task.doc_to_text(doc))
    try:
        return context_digest(text[: context_end(doc, text)])
    except ValueError:
        return None
