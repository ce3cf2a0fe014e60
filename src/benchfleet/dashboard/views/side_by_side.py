"""Several cells that ask the same questions, side by side by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.rows import Row
from benchfleet.dashboard.views.cell import is_right, samples_in
from benchfleet.dashboard.views.words import Piece, word_difference

MAX_ITEMS = 6  # cells beside each other
PAGE_QUESTIONS = 20
MAX_ANSWER_CHARACTERS = 4_000
LETTERS = "ABCDEF"
Group = Literal["", "both", "only_a", "only_b", "neither"]
Turn = Literal["", "lost", "gained"]  # from right to wrong, from wrong to right


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one cell answered."""

    letter: str
    score: float | None
    turn: Turn  # against A
    pieces: Sequence[Piece]  # the answer, marked where it differs from A's


@dataclass(frozen=True, kw_only=True)
class Question:
    """One sample with all its answers; A's is the first."""

    id: str
    columns: Mapping[str, Any]  # of the sample, such as its reference
    answers: Sequence[Answer]


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """Cells beside each other. With more than two, `only_a` counts the samples that A has right and
    another one wrong, and `only_b` those that A has wrong and another one right."""

    both: int  # all are right
    only_a: int
    only_b: int
    neither: int
    questions: Sequence[Question]  # of the page
    total: int  # that the choice leaves
    page: int
    pages: int


def side_by_side(folders: Sequence[Path | None], group: Group, page: int) -> SideBySide:
    """The samples that all of the cells have, those of the first one's order."""
    first, *others = [{str(one.get("id")): one for one in samples_in(folder)} for folder in folders]
    groups: dict[str, list[Sequence[Mapping[str, Any]]]] = {
        name: [] for name in ("both", "only_a", "only_b", "neither")
    }
    for id, sample in first.items():
        if all(id in one for one in others):
            samples = [sample, *(one[id] for one in others)]
            groups[_group(samples)].append(samples)
    chosen = groups[group] if group else [one for some in groups.values() for one in some]
    pages = max(1, -(-len(chosen) // PAGE_QUESTIONS))
    page = max(0, min(page, pages - 1))
    page_samples = chosen[page * PAGE_QUESTIONS : (page + 1) * PAGE_QUESTIONS]
    return SideBySide(
        **{name: len(some) for name, some in groups.items()},
        questions=[_question(samples) for samples in page_samples],
        total=len(chosen),
        page=page,
        pages=pages,
    )


def _group(samples: Sequence[Mapping[str, Any]]) -> str:
    first, *others = map(is_right, samples)
    if first:
        return "both" if all(others) else "only_a"
    return "only_b" if any(others) else "neither"


def _question(samples: Sequence[Mapping[str, Any]]) -> Question:
    first = samples[0]
    text = _text(first)
    answers = []
    for letter, sample in zip(LETTERS, samples, strict=False):
        score, right = sample.get("score"), is_right(sample)
        turn: Turn = ""
        if right != is_right(first):
            turn = "gained" if right else "lost"
        answers.append(
            Answer(
                letter=letter,
                score=float(score) if isinstance(score, (int, float)) else None,
                turn=turn,
                pieces=word_difference(text, _text(sample)),
            )
        )
    columns = first.get("columns")
    columns = columns if isinstance(columns, dict) else {}
    return Question(id=str(first.get("id")), columns=columns, answers=answers)


def _text(sample: Mapping[str, Any]) -> str:
    text = str(sample.get("predicted_answer") or "")
    cut = len(text) > MAX_ANSWER_CHARACTERS
    return f"{text[:MAX_ANSWER_CHARACTERS]}… cut" if cut else text


def same_question(model: ReadModel, row: Row) -> list[Row]:
    """The cells that ask the same questions: other configs of the model first, then others."""
    others = [
        one
        for tile in model.tiles.values()
        if tile.label == row.label
        for one in tile.rows
        if one.repeat == row.repeat and one is not row
    ]
    return sorted(others, key=lambda one: (one.model != row.model, one.index))
