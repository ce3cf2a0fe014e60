"""What a user's own script or callable reported, as a `Score` and the records of its samples.

A report is a number, or a mapping. In a mapping the headline is what `metric` names (dots go
into nested mappings), else the first of `HEADLINES`, else the first number, else the mean of the
samples' scores, else ``passed`` as 1 or 0. ``task_scores`` holds the scores of parts, and
``samples`` a list of mappings with ``id``, ``score`` and whatever else they have. Samples with the
same ``context`` are one cluster. A function of all samples, `aggregate`, replaces the headline; so
its error can be computed by the bootstrap.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchfleet.benchmarks import bootstrap
from benchfleet.benchmarks.asking import context_digest
from benchfleet.benchmarks.base import Record, Score, Session, withdraw
from benchfleet.benchmarks.process import MAX_STDOUT_BYTES
from benchfleet.benchmarks.scoring import mean
from benchfleet.errors import CellFailure

METRICS = "metrics.json"
_LEAST_FREE_BYTES = 2**16  # where less is free, a script could not write its report
HEADLINES = ("overall_score", "success_rate", "accuracy", "score")
_MAX_TEXT_CHARS = 200  # characters; longer text is no summary
_MEASURED_KEYS = {"prompt_tokens", "completion_tokens", "seconds"}
Aggregate = Callable[[list[Mapping[str, Any]]], float]
_SAMPLE_KEYS = {"id", "score", "predicted_answer", "finish", *_MEASURED_KEYS}


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report as it was understood."""

    score: Score
    records: Sequence[Record]

    def record(self, session: Session) -> Score:
        """Record the samples, and give the score back."""
        session.expect(len(self.records))
        withdraw(session, (r for r in session.recorded if r.index >= len(self.records)))
        for record in self.records:
            session.record(record)
        return self.score


def read_file(file: Path) -> Any:
    """The JSON in a file. Raises CellFailure where it holds none, or was cut off by a full disk."""
    try:
        return json.loads(file.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        if shutil.disk_usage(file.parent).free < _LEAST_FREE_BYTES:
            message = (
                f"{file.name} was cut off: no space left on device where {file.parent} is; make "
                "room there"
            )
            raise CellFailure(
                stage="benchmark", kind="disk_full", message=message, retryable=True
            ) from None
        raise bad_result(f"{file.name} cannot be read as JSON: {error}") from None


def find_report(result: Path, scratch: Path, stdout: bytes) -> Any:
    """What a script reported: its result file, else metrics.json in its scratch folder, else its
    last line of JSON. Raises CellFailure where it reported nothing."""
    for file in (result, scratch / METRICS):
        if file.exists():
            return read_file(file)
    with contextlib.suppress(ValueError):  # all that it printed, over many lines
        whole = json.loads(stdout)
        if isinstance(whole, dict):
            return whole
    for line in reversed(stdout.decode("utf-8", "replace").split("\n")):
        if line.lstrip().startswith("{"):
            try:
                return json.loads(line)
            except ValueError:
                continue  # a line that only looks like JSON, such as a printed mapping
    raise bad_result(
        f"it reported nothing: write JSON to {{result}}, or {METRICS} to the folder {{scratch}}, "
        f"or print a line of JSON among the last {MAX_STDOUT_BYTES // 1_000_000} MB"
    )


def plain(value: Any) -> Any:
    """The value as JSON knows it; numbers of numpy and the like become plain ones. Raises
    CellFailure where it is none, with the key of what JSON does not know."""
    try:
        return json.loads(json.dumps(value, default=_plain_number))
    except (TypeError, ValueError) as error:
        problem = next(_not_plain(value, ""), None) or f"what was returned is not JSON: {error}"
        raise bad_result(problem) from None


def _plain_number(value: Any) -> Any:
    """A number of numpy or torch. Raises TypeError."""
    if not hasattr(value, "item"):
        raise TypeError(f"it holds {_text_of(value)} of type {type(value).__name__}")
    return value.item()


def _not_plain(value: Any, key: str) -> Iterator[str]:
    """What to write instead of each array, coroutine and generator in a value."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _not_plain(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _not_plain(item, f"{key}[{index}]")
    elif inspect.iscoroutine(value):
        value.close()  # nobody awaits it any more
        yield f"{key or 'what was returned'} is a coroutine: await it, or use asyncio.run"
    elif inspect.isgenerator(value) or inspect.isasyncgen(value):
        yield f"{key or 'what was returned'} is a generator: use a list of what it yields"
    elif hasattr(value, "tolist") and getattr(value, "size", 1) != 1:
        kind = type(value).__name__
        yield f"{key or 'what was returned'} is an array ({kind}): use .tolist(), or one number"


def read_report(value: Any, *, metric: str | None, aggregate: Aggregate | None = None) -> Report:
    """The report that the value is. Raises CellFailure where it has no finite headline."""
    if aggregate is not None:
        return _aggregated(value, aggregate)
    if isinstance(value, Mapping):
        samples = _samples(value.get("samples"))
        scores = [score for _, score in samples if score is not None]
        score = Score(
            overall=_headline(value, metric, scores),
            per_sample=[0.0 if one is None else one for _, one in samples] if scores else (),
            tasks=_tasks(value),
            summary=_summary(value),
            unscored=[n for n, (_, one) in enumerate(samples) if one is None] if scores else (),
        )
        return Report(score=score, records=[record for record, _ in samples])
    if metric is not None or value is None:
        raise bad_result(f"reported {_text_of(value)}; a mapping of names to numbers is wanted")
    return Report(score=Score(overall=_finite("the result", value)), records=())


def _aggregated(value: Any, aggregate: Aggregate) -> Report:
    """The report whose headline is the aggregate of its samples."""
    samples = value.get("samples") if isinstance(value, Mapping) else None
    if not samples or not isinstance(samples, list):
        raise bad_result("'aggregate' needs 'samples': a list of mappings")
    overall = _finite("the result of 'aggregate'", plain(aggregate(list(samples))))
    report = read_report({**value, HEADLINES[0]: overall}, metric=HEADLINES[0])
    error = bootstrap.error_of(
        lambda chosen: aggregate(list(chosen)),
        samples,
        questions=[record.context or record.id for record in report.records],
        score=report.score,
    )
    summary = {**report.score.summary, **error}
    return replace(report, score=replace(report.score, summary=summary))


def bad_result(message: str) -> CellFailure:
    """The failure of a result that is none."""
    return CellFailure(stage="collect", kind="bad_result", message=message)


def _headline(value: Mapping[str, Any], metric: str | None, scores: Sequence[float]) -> float:
    if metric is not None:
        return _finite(metric, _at(value, metric))
    for name in HEADLINES:
        if name in value:
            return _finite(name, value[name])
    for name, item in value.items():
        if _is_number(item):
            return _finite(name, item)
    if scores:
        return mean(scores)
    if isinstance(value.get("passed"), bool):
        return float(value["passed"])
    raise bad_result(
        f"no number among {', '.join(map(str, value)) or 'nothing'}; "
        "report overall_score, or name another with 'metric'"
    )


def _at(value: Mapping[str, Any], metric: str) -> Any:
    current: Any = value
    for part in [metric] if metric in value else metric.split("."):
        if not isinstance(current, Mapping) or part not in current:
            numbers = [name for name, item in value.items() if _is_number(item)]
            raise bad_result(
                f"no metric {metric!r} was reported; there are {', '.join(numbers) or 'none'}"
            )
        current = current[part]
    return current


def _samples(items: Any) -> list[tuple[Record, float | None]]:
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        if items is None or isinstance(items, (int, float)):  # how many there were
            return []
        raise bad_result("'samples' must be a list of mappings with 'id' and 'score'")
    return [_sample(index, item) for index, item in enumerate(items)]


def _sample(index: int, item: Mapping[str, Any]) -> tuple[Record, float | None]:
    def measured(name: str) -> float:
        return _finite(f"samples[{index}].{name}", item.get(name) or 0)

    context = item.get("context")
    record = Record(
        index=index,
        id=str(item.get("id", index)),
        columns={
            name: _finite_only(part) for name, part in item.items() if name not in _SAMPLE_KEYS
        },
        predicted_answer=_as_text(item.get("predicted_answer", "")),
        prompt_tokens=int(measured("prompt_tokens")),
        completion_tokens=int(measured("completion_tokens")),
        seconds=measured("seconds"),
        finish=str(item.get("finish") or ""),
        context="" if context is None else context_digest(_as_text(context)),
    )
    if item.get("score") is None:
        return record, None
    return record, _finite(f"samples[{index}].score", item["score"])


def _tasks(value: Mapping[str, Any]) -> dict[str, float]:
    tasks = value.get("task_scores")
    return _finite_numbers(tasks) if isinstance(tasks, Mapping) else {}


def _summary(value: Mapping[str, Any]) -> dict[str, Any]:
    """Single numbers, truths and short texts, from the top and from ``summary``."""
    inner = value.get("summary")
    merged = {**(inner if isinstance(inner, Mapping) else {}), **value}
    short = {
        name: item
        for name, item in merged.items()
        if isinstance(item, bool) or (isinstance(item, str) and len(item) <= _MAX_TEXT_CHARS)
    }
    return {**short, **_finite_numbers(merged)}


def _finite_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: v for name, v in values.items() if _is_number(v) and math.isfinite(v)}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _finite(name: str, value: Any) -> float:
    """The number; a truth counts as 1 or 0."""
    try:
        if isinstance(value, (int, float)) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass  # a whole number beyond what a float holds
    raise bad_result(f"{name} is {_text_of(value)}, not a finite number")


def _finite_only(value: Any) -> Any:
    """The value with None for what JSON has no number for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_finite_only(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _finite_only(item) for name, item in value.items()}
    return value


def _as_text(value: Any) -> str:
    """A text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(_finite_only(value))


def _text_of(value: Any) -> str:
    return f"{value!r:.60}"
