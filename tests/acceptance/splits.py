"""A large cell of the mock model, and what its result says."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import User

ROWS = 40
STUDY = """\
campaign: study
matrix:
  models: [{{name: m, adapter: mock, model_kwargs: {{answer: Ada Brandt, seconds: {seconds}}}}}]
  configs: {{dense: null}}
  benchmarks:
    - mock_benchmark: {{rows: {rows}, samples_per_question: {answers}, split: {split}}}
"""
RESULT = "m/dense/mock_benchmark"
Whole = tuple[list[tuple[object, ...]], object]  # samples and score of a cell in one piece


def declare(
    user: User, split: object, *, seconds: float = 0.02, answers: int = 1, more: str = ""
) -> Path:
    """Write the campaign file, of `ROWS` samples with so many answers to each question; `more` are
    lines of its own."""
    rows = ROWS // answers
    return user.write(STUDY.format(split=split, seconds=seconds, rows=rows, answers=answers) + more)


def samples(folder: Path) -> list[tuple[object, ...]]:
    """What the result says of its samples, without times."""
    lines = (folder / "samples.jsonl").read_text().splitlines()
    keys = ("index", "id", "question", "draw", "predicted_answer", "score", "context")
    return [tuple(json.loads(line).get(key) for key in keys) for line in lines]


def score(folder: Path) -> object:
    return json.loads((folder / "metrics.json").read_text())["overall_score"]


def in_one_piece(folder: Path, *, answers: int = 1) -> Whole:
    """Run the cell in a folder, not split."""
    user = User(folder)
    declare(user, 1, seconds=0, answers=answers)
    user.run("run", "study.yaml", "--cpu-slots", "1")
    whole = samples(user.results / RESULT), score(user.results / RESULT)
    assert len(whole[0]) == ROWS
    return whole
