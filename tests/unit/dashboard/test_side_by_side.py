"""Answers side by side: who is right, and in which words they differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchfleet.dashboard.views.side_by_side import (
    MAX_ITEMS,
    PAGE_QUESTIONS,
    side_by_side,
)
from benchfleet.dashboard.views.words import MAX_COMPARED_WORDS, word_difference


def pieces(first: str, second: str) -> list[tuple[str, str]]:
    return [(piece.kind, piece.text) for piece in word_difference(first, second)]


def test_the_words_that_differ_are_marked() -> None:
    assert pieces("the answer is 4", "the answer is not 5") == [
        ("same", "the answer is "),
        ("missing", "4"),
        ("added", "not 5"),
    ]
    assert pieces("", "new") == [("added", "new")]
    assert pieces("gone", "") == [("missing", "gone")]
    assert pieces("one", "two") == [("added", "two")]
    assert pieces("a b", "a b") == [("same", "a b")]


@pytest.mark.parametrize("words", [1, MAX_COMPARED_WORDS // 4, MAX_COMPARED_WORDS])
def test_no_word_of_an_answer_is_lost(words: int) -> None:
    first, second = "a b c d " * words, "a x c \n " * words
    shown = "".join(
        piece.text for piece in word_difference(first, second) if piece.kind != "missing"
    )
    assert shown == second


def cell(folder: Path, scores: Sequence[float], *, skip: int = -1) -> Path:
    folder.mkdir()
    lines = [
        json.dumps(
            {"index": n, "id": f"s{n}", "score": score, "predicted_answer": f"{folder.name} {n}"}
        )
        for n, score in enumerate(scores)
        if n != skip
    ]
    (folder / "samples.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_three_cells_are_counted_from_right_to_wrong_and_back(tmp_path: Path) -> None:
    a = cell(tmp_path / "a", [1, 1, 0, 0])
    b = cell(tmp_path / "b", [1, 1, 0, 1])
    c = cell(tmp_path / "c", [1, 0, 0, 0])
    view = side_by_side([a, b, c], "", 0)
    assert (view.both, view.only_a, view.only_b, view.neither) == (1, 1, 1, 1)
    (lost,) = side_by_side([a, b, c], "only_a", 0).questions
    assert [one.turn for one in lost.answers] == ["", "", "lost"]
    (gained,) = side_by_side([a, b, c], "only_b", 0).questions
    assert [one.turn for one in gained.answers] == ["", "gained", ""]
    assert side_by_side([a, None], "", 0).total == 0


def test_a_sample_that_one_lacks_is_left_out_and_pages_are_bounded(tmp_path: Path) -> None:
    count = 2 * PAGE_QUESTIONS + 1
    cells = [cell(tmp_path / name, [1.0] * count, skip=7) for name in "abcdef"]
    assert len(cells) == MAX_ITEMS
    view = side_by_side(cells, "", 99)
    assert (view.total, view.page, view.pages) == (count - 1, 1, 2)
    assert len(view.questions) == PAGE_QUESTIONS
