"""Several answers to each question: pass@k, pass^k and maj@k of a cell."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any


def seed_of_draw(seed: int, draw: int) -> int:
    """The sampling seed of one of several answers to a question: `seed` for the first, and for each
    of the others one of 31 bits. So seeds that are close to each other share no answers."""
    if not draw:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed}/{draw}".encode()).digest()[:4], "big") >> 1


def pass_at(n: int, correct: int, k: int) -> float:
    """The unbiased chance that one of k answers is right, from `correct` of n (arXiv 2107.03374):
    1 - C(n - c, k) / C(n, k). Raises ValueError unless 1 <= k <= n and 0 <= c <= n."""
    _check(n, correct, k)
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def pass_hat(n: int, correct: int, k: int) -> float:
    """The unbiased chance that all of k answers are right: C(c, k) / C(n, k) (arXiv 2406.12045).
    Raises as `pass_at`."""
    _check(n, correct, k)
    return math.comb(correct, k) / math.comb(n, k)


def majority(answers: Sequence[str], scores: Sequence[float]) -> float:
    """The score of the most frequent answer; the mean of those that tie. Empty ones do not vote:
    without a vote it is 0."""
    votes: dict[str, list[float]] = defaultdict(list)
    for answer, score in zip(answers, scores, strict=True):
        if text := answer.strip():
            votes[text].append(score)
    most = max(map(len, votes.values()), default=0)
    return _mean([_mean(some) for some in votes.values() if len(some) == most]) if most else 0.0


def draw_metrics(
    records: Sequence[Mapping[str, Any]], scores: Sequence[float | None]
) -> dict[str, float]:
    """avg@n, and for k of 1, 2, 4, … n the means over questions of maj@k, and of pass@k and pass^k
    where scores are right or wrong. Empty where no question has several answers, or one lacks a
    score. Verdicts of a judge about one question are no draws."""
    questions = by_question(records) if any(record.get("draw") for record in records) else {}
    values = [float(score) for score in scores if score is not None]
    if len(values) != len(records) or not questions:
        return {}
    counts = {len(some) for some in questions.values()}
    n = min(counts)
    if n < 2:
        return {}
    top = max([*values, 0.0])
    is_binary = {*values} <= {0.0, top}
    metrics = {f"avg_at_{n}": _mean([_mean([values[i] for i in q]) for q in questions.values()])}
    for k in sorted({n, *(2**power for power in range(n.bit_length()) if 2**power <= n)}):
        right = [(len(q), sum(values[i] > 0 for i in q)) for q in questions.values()]
        if is_binary:
            metrics[f"pass_at_{k}"] = _mean([pass_at(total, c, k) for total, c in right])
            metrics[f"pass_hat_{k}"] = _mean([pass_hat(total, c, k) for total, c in right])
        metrics[f"maj_at_{k}"] = _mean(
            [
                majority([answer_of(records[i]) for i in q[:k]], [values[i] for i in q[:k]])
                for q in questions.values()
            ]
        )
    return metrics


def by_question(records: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """The positions of each question's answers; empty if no record names its question."""
    questions: dict[str, list[int]] = defaultdict(list)
    for position, record in enumerate(records):
        if question := record.get("question"):
            questions[str(question)].append(position)
    return questions


def draw_id(question: str, draw: int) -> str:
    """The id of one of several answers to a question."""
    return f"{question}~{draw}" if draw else question


def answer_of(record: Mapping[str, Any]) -> str:
    """What the scorer took from a text, or the text."""
    return str(record.get("parsed") or record.get("predicted_answer") or "")


def is_draw_metric(name: str) -> bool:
    """Whether a metric is one of several answers to each question."""
    return name.startswith(("avg_at_", "pass_at_", "pass_hat_", "maj_at_"))


def display_name(metric: str) -> str:
    """``pass_at_4`` as people write it: ``pass@4``."""
    return metric.replace("_at_", "@").replace("_hat_", "^")


def _check(n: int, correct: int, k: int) -> None:
    if not (1 <= k <= n and 0 <= correct <= n):
        raise ValueError(f"k={k} of n={n} answers with {correct} right; use 1 <= k <= n")


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
