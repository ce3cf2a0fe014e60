"""One evaluation by Inspect, and what its log says. Imports Inspect: for slots alone."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from inspect_ai import eval as inspect_eval
from inspect_ai.log import EvalLog, EvalSample, recompute_metrics
from inspect_ai.scorer import value_to_float

from benchfleet.benchmarks.base import Record, Score, Session, withdraw
from benchfleet.benchmarks.bootstrap import error_of
from benchfleet.domain.failure import Kind
from benchfleet.errors import CellFailure
from benchfleet.hints import hint

from .model import Ending, model_failure, slot_model
from .source import TaskSource

_MAX_PRINTED_SAMPLES = 5  # failed samples whose traceback goes to the attempt's log
_FINISHES = {"max_tokens": "length", "model_length": "length", "content_filter": "refused"}
_NO_HEADLINES = ("stderr", "std", "var")


def evaluate(
    source: TaskSource, args: Mapping[str, Any], session: Session, *, metric: str | None
) -> Score:
    """Run the task, record its samples and return its score.

    Raises CellFailure if a sample failed, and what the session raises if the cell has to stop.
    """
    ending = Ending()
    model = slot_model(session, ending)
    draws = session.samples_per_question
    log_dir = str(session.scratch.absolute() / "inspect")
    with working_in(source.file.parent if source.file else None):
        (log,) = inspect_eval(
            source.name_in_folder,
            model=model,
            task_args=dict(args),
            limit=session.limit,
            epochs=draws if draws > 1 else None,
            log_dir=log_dir,
            log_format="json",
            log_realtime=False,
            display="none",
            fail_on_error=False,
            max_samples=model.api.at_once,
            ctl_server=False,
            acp_server=False,
        )
    model_failure(ending)
    samples = _by_question(log.samples or [])
    if log.status != "success":
        text = log.error.message if log.error else "its log gives no reason"
        raise _failure("error", f"Inspect ended the task as {log.status}: {text}")
    failed = [sample for sample in samples if sample.error]
    if failed:
        for sample in failed[:_MAX_PRINTED_SAMPLES]:
            print(f"sample {sample.id}: {sample.error.traceback if sample.error else ''}")
        first = failed[0].error.message if failed[0].error else ""
        raise _failure(
            "error",
            f"{len(failed)} of {len(samples)} samples failed; sample {failed[0].id}: {first}",
        )
    if not samples:
        raise _failure("bad_result", "the task has no samples; check its data and limit")
    _record(samples, session)
    return _score(log, samples, metric)


@contextmanager
def working_in(folder: Path | None) -> Iterator[None]:
    """Change to a folder while this lasts; None changes nothing."""
    if folder is None:
        yield
        return
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _record(samples: Sequence[EvalSample], session: Session) -> None:
    session.expect(len(samples))
    withdraw(session, [one for one in session.recorded if one.index >= len(samples)])
    for index, sample in enumerate(samples):
        usage = list(sample.model_usage.values())
        details = sample.output.metadata or {}
        session.record(
            Record(
                index=index,
                id=str(sample.id) if sample.epoch == 1 else f"{sample.id}-{sample.epoch}",
                question=str(sample.id) if session.samples_per_question > 1 else "",
                draw=sample.epoch - 1 if session.samples_per_question > 1 else 0,
                columns={"input": _text(sample.input), "target": _text(sample.target)},
                predicted_answer=sample.output.completion,
                prompt_tokens=sum(one.input_tokens for one in usage),
                completion_tokens=sum(one.output_tokens for one in usage),
                seconds=sample.total_time or 0.0,
                measures=details.get("measures") or {},
                finish=_FINISHES.get(str(sample.output.stop_reason), "stop"),
                error=str(details.get("error") or ""),
            )
        )


def _by_question(samples: Sequence[EvalSample]) -> list[EvalSample]:
    """The samples with all epochs of a question beside each other."""
    order = {id: n for n, id in enumerate(dict.fromkeys(sample.id for sample in samples))}
    return sorted(samples, key=lambda sample: (order[sample.id], sample.epoch))


def _score(log: EvalLog, samples: Sequence[EvalSample], metric: str | None) -> Score:
    values = _metrics(log)
    headlines = [name for name in values if name not in _NO_HEADLINES]
    if not headlines:
        raise _failure("bad_result", "the task has no metric; give it a scorer with metrics")
    headline = headlines[0] if metric is None else metric
    if headline not in values:
        raise _failure("user_error", f"no metric {metric!r}; {hint(headline, headlines)}")
    overall, scorer = values[headline]
    if not math.isfinite(overall):
        raise _failure("bad_result", f"the metric {headline} is {overall}")
    finite = {name: value for name, (value, _) in values.items() if math.isfinite(value)}
    score = Score(
        overall=overall,
        per_sample=_sample_scores(samples, scorer),
        unparsed=_unparsed(samples, scorer),
        summary={"metrics": finite, "metric": headline, "task_version": log.eval.task_version},
    )
    error = error_of(
        lambda chosen: _recomputed(log, chosen, headline),
        samples,
        questions=[sample.id for sample in samples],
        score=score,
    )
    return replace(score, summary={**score.summary, **error})


def _metrics(log: EvalLog) -> dict[str, tuple[float, str]]:
    """The value of each metric, with its scorer."""
    values: dict[str, tuple[float, str]] = {}
    for score in log.results.scores if log.results else ():
        for name, one in score.metrics.items():
            full_name = name if name not in values else f"{score.name}/{name}"
            values[full_name] = (float(one.value), score.name)
    return values


def _recomputed(log: EvalLog, samples: Sequence[EvalSample], metric: str) -> float:
    """A metric over other samples. Inspect takes samples of one id for epochs of one question, so a
    question that comes twice gets another id."""
    drawn: list[EvalSample] = []
    for number, sample in enumerate(samples):
        begins = number == 0 or sample.epoch <= samples[number - 1].epoch
        id = number if begins else drawn[-1].id
        drawn.append(sample.model_copy(update={"id": id}))
    other = log.model_copy(update={"samples": drawn})
    recompute_metrics(other)
    return _metrics(other)[metric][0]


def _sample_scores(samples: Sequence[EvalSample], scorer: str) -> list[float]:
    """Each sample's own score; empty if one has none or has several values."""
    scores = [(sample.scores or {}).get(scorer) for sample in samples]
    if not all(one and isinstance(one.value, (bool, int, float, str)) for one in scores):
        return []
    numbers = [value_to_float()(one.value) for one in scores if one]
    return numbers if all(map(math.isfinite, numbers)) else []


def _unparsed(samples: Sequence[EvalSample], scorer: str) -> list[int]:
    """The positions of the samples in whose text the scorer found no answer; none where it names
    no answers at all."""
    scores = [(sample.scores or {}).get(scorer) for sample in samples]
    named = [bool(one and one.answer) for one in scores]
    missed = [bool(one and "not matched" in (one.explanation or "")) for one in scores]
    if not any(named) and not any(missed):
        return []
    return [n for n, one in enumerate(named) if not one]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "\n".join(one if isinstance(one, str) else f"{one.role}: {one.text}" for one in value)


def _failure(kind: Kind, message: str) -> CellFailure:
    return CellFailure(stage="benchmark", kind=kind, message=message)
