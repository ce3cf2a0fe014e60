"""How a sample ended, and what a cell's samples tell by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

SampleEnd = Literal["stop", "length", "empty", "unparsed", "refused", "error"]
ENDS: tuple[SampleEnd, ...] = ("stop", "length", "empty", "unparsed", "refused", "error")
SCORE_STOP = "score_stop"  # the mean score of the samples that ended by `stop`
SAME_ANSWER = "same_answer"  # the share of the questions that got the most frequent answer
MIN_QUESTIONS = 10  # below, no share of equal answers is given
_LENGTH = ("length", "max_tokens", "model_length", "max_length")
_REFUSED = ("content_filter", "refusal", "refused", "safety", "prohibited_content")
ABORTED = ("abort", "error")  # of servers that gave the request up


def share_name(end: str) -> str:
    """The metric that has the share of the samples that ended so."""
    return f"ended_{end}"


SHARES = tuple(map(share_name, ENDS))


def sample_end(record: Mapping[str, Any], *, unparsed: bool = False) -> SampleEnd:
    """How the sample of a record ended; `unparsed`: its scorer found no answer in its text."""
    finish = str(record.get("finish", "")).lower()
    if finish in _REFUSED:
        return "refused"
    if lacks_answer(record):
        return "error"
    if finish in _LENGTH or (record.get("thought") or {}).get("unclosed"):
        return "length"
    if not str(record.get("predicted_answer", "")).strip():
        return "empty"
    return "unparsed" if unparsed else "stop"


def lacks_answer(record: Mapping[str, Any]) -> bool:
    """Whether the request of a record failed for good, or its server gave it up."""
    return bool(record.get("error")) or str(record.get("finish", "")).lower() in ABORTED


def sample_ends(
    records: Sequence[Mapping[str, Any]],
    unparsed: Collection[int] = (),
    *,
    imported: bool = False,
) -> list[SampleEnd] | None:
    """How each sample ended; `unparsed` are positions among the records. None where no record has
    an answer: a benchmark that records none. None too where another harness, whose result was
    `imported`, did not say why each answer ended."""
    if not any(r.get("predicted_answer") or r.get("finish") or r.get("error") for r in records):
        return None
    if imported and not all(r.get("finish") or r.get("error") for r in records):
        return None
    positions = frozenset(unparsed)
    return [sample_end(record, unparsed=n in positions) for n, record in enumerate(records)]


def end_metrics(
    ends: Sequence[str], scores: Sequence[float | None], answers: Sequence[str]
) -> dict[str, float]:
    """The shares of all ends but `stop` that occur, the score over `stop` where it is another one,
    and the share of equal answers. `scores` is empty, or has one for each sample."""
    counts = Counter(ends)
    metrics = {share_name(e): counts[e] / len(ends) for e in ENDS if counts[e] and e != "stop"}
    stopped = [
        score
        for end, score in zip(ends, scores, strict=False)
        if end == "stop" and score is not None
    ]
    if metrics and stopped:
        metrics[SCORE_STOP] = sum(stopped) / len(stopped)
    if len(answers) >= MIN_QUESTIONS:
        frequent = Counter(text for answer in answers if (text := answer.strip())).most_common(1)
        metrics[SAME_ANSWER] = frequent[0][1] / len(answers) if frequent else 0.0
    return metrics


def with_defaults(metrics: Mapping[str, float | bool]) -> dict[str, float | bool]:
    """The metrics with the share 0 of each end that did not occur, and all derived values."""
    shares = {name: metrics.get(name, 0.0) for name in SHARES}
    shares["ended_stop"] = max(0.0, 1.0 - sum(v for n, v in shares.items() if n != "ended_stop"))
    derived = {SCORE_STOP: metrics.get("overall_score", 0.0), SAME_ANSWER: 0.0}
    return {**derived, **shares, **metrics}
