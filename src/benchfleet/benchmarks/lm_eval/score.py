"""From lm-eval's results of one task to a score."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from numbers import Real
from typing import Any

from benchfleet.benchmarks.base import Score
from benchfleet.benchmarks.bootstrap import bootstrap, scaled
from benchfleet.benchmarks.scoring import mean_by
from benchfleet.domain.averages import BOOTSTRAP_STDERR, standard_error
from benchfleet.domain.canonical import content_digest
from benchfleet.domain.failure import Kind
from benchfleet.domain.lm_eval_layout import DOCUMENTS, TASK_METRICS
from benchfleet.errors import CellFailure

from .plain_values import plain

_PREFERRED_METRIC = "acc_norm"  # where a task has it, beside acc, papers report it
_NOT_MEASURED_SCORE = -1  # how RULER's tasks say that a length was not asked
_NOTHING_FOUND = "[invalid]"  # lm-eval's regex filters, where none is named
_HOST_KEYS = ("metadata", "dataset_path", "dataset_kwargs", "custom_dataset")


def scored(
    results: Mapping[str, Any],
    task: str,
    *,
    metric: str | None = None,
    aggregations: Mapping[str, Callable[[Sequence[Any]], float]] = {},
) -> Score:
    """The score of one task in what lm-eval's `evaluate` gave back.

    The headline is `metric`, written ``name`` or ``name,filter``, or else ``acc_norm``, or else
    the task's first metric of which more is better. Where less is better of all, it is the
    negative of the first. A metric keeps lm-eval's own scale, 0 to 1 for nearly all. If the
    headline is not the mean of its documents' values, its error is the bootstrap's, made with the
    task's `aggregations` by metric. Raises CellFailure where there is no such metric, or where it
    is not a number.
    """
    metrics = {key: float(v) for key, v in results["results"][task].items() if _is_metric(key, v)}
    better = results["higher_is_better"].get(task, {})
    chosen = headline_key(metrics, better, metric)
    if chosen is None:
        names = ", ".join(map(_display_name, metrics)) or "none"
        raise _failure("user_error", f"{task} has no metric {metric or ''!r}; there are {names}")
    sign = -1.0 if better.get(_name(chosen)) is False else 1.0
    if not math.isfinite(metrics[chosen]):
        raise _failure("bad_result", f"{_display_name(chosen)} of {task} is {metrics[chosen]}")
    config = results["configs"][task]
    samples, overall = results["samples"][task], sign * metrics[chosen]
    per_sample = _per_sample(samples, chosen, sign)
    errors = _standard_errors(samples, metrics)
    error: dict[str, float] = {}
    aggregate = aggregations.get(_name(chosen))
    if aggregate and not _is_mean(per_sample, overall):
        error = scaled(bootstrap(aggregate, _values(samples, chosen)), sign)
        errors |= {chosen: error[BOOTSTRAP_STDERR]} if error else {}
    return Score(
        overall=overall,
        per_sample=per_sample,
        tasks={_display_name(key): value for key, value in metrics.items() if math.isfinite(value)},
        summary={
            **error,
            "metric": _display_name(chosen),
            TASK_METRICS: facts_of_metrics(metrics, better, errors),
            DOCUMENTS: plain(results.get("n-samples", {}).get(task)),
            "lm_eval": version("lm_eval"),
            "task_version": plain(results["versions"].get(task)),
            "num_fewshot": plain(results["n-shot"].get(task)),
            "task_digest": content_digest(
                {key: _named(value) for key, value in config.items() if key not in _HOST_KEYS}
            ),
        },
        unparsed=_unparsed(results["samples"][task], chosen, config),
        parsed=parsed_texts(results["samples"][task], chosen, config),
    )


def facts_of_metrics(
    metrics: Mapping[str, float], better: Mapping[str, Any], errors: Mapping[str, float]
) -> list[dict[str, Any]]:
    """What is known of each metric besides its value, on lm-eval's scale, in the task's order."""
    facts: list[dict[str, Any]] = []
    for key, value in metrics.items():
        if math.isfinite(value):
            facts.append({"name": _display_name(key)})
            if isinstance(is_better := better.get(_name(key)), bool):
                facts[-1]["higher_is_better"] = is_better
            if key in errors:
                facts[-1]["stderr"] = errors[key]
    return facts


def documents(samples: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The documents of lm-eval's samples, each once, in their order."""
    docs = {int(sample["doc_id"]): sample["doc"] for sample in samples}
    return [docs[number] for number in sorted(docs)]


def grouped(score: Score, names: Mapping[str, Sequence[str]]) -> Score:
    """The score with the means of groups of its samples: for each grouping the group of each."""
    means: dict[str, float] = {}
    for what, groups in names.items():
        if len(score.per_sample) == len(groups):
            means |= mean_by(what, groups, score.per_sample)
    return replace(score, tasks={**score.tasks, **means})


def _is_metric(key: str, value: Any) -> bool:
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and "," in key and not _name(key).endswith("_stderr")


def headline_key(
    metrics: Mapping[str, float], better: Mapping[str, bool | None], metric: str | None
) -> str | None:
    """The key of the headline; None where there is no such metric."""
    if metric is not None:
        return next((key for key in metrics if metric in (key, _name(key))), None)
    measured = [key for key in metrics if metrics[key] != _NOT_MEASURED_SCORE] or list(metrics)
    more = [key for key in measured if better.get(_name(key)) is not False]
    favoured = [key for key in more if _name(key) == _PREFERRED_METRIC]
    return next(iter([*favoured, *more, *measured]), None)


def _per_sample(samples: Sequence[Mapping[str, Any]], key: str, sign: float) -> list[float]:
    """The headline of each document in their order; empty where it is not one number for each."""
    values = _values(samples, key)
    numbers = [sign * float(v) for v in values if isinstance(v, Real) and v != _NOT_MEASURED_SCORE]
    whole = len(numbers) == len(values) and all(map(math.isfinite, numbers))
    return numbers if whole else []


def _values(samples: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    """What each document has of a metric, in their order."""
    name, _, chosen_filter = key.partition(",")
    ours = [sample for sample in samples if sample["filter"] == chosen_filter]
    return [sample.get(name) for sample in sorted(ours, key=lambda one: int(one["doc_id"]))]


def _standard_errors(
    samples: Sequence[Mapping[str, Any]], metrics: Mapping[str, float]
) -> dict[str, float]:
    """The standard error of each metric that is the mean of its documents' values."""
    errors: dict[str, float] = {}
    for key, value in metrics.items():
        values = _per_sample(samples, key, 1.0)
        error = standard_error(values) if _is_mean(values, value) else None
        errors |= {} if error is None else {key: error}
    return errors


def _is_mean(per_sample: Sequence[float], overall: float) -> bool:
    if not per_sample:
        return False
    middle = math.fsum(per_sample) / len(per_sample)
    return math.isclose(middle, overall, rel_tol=1e-6, abs_tol=1e-9)


def _unparsed(
    samples: Sequence[Mapping[str, Any]], key: str, config: Mapping[str, Any]
) -> list[int]:
    """The positions of the documents in whose answer the headline's filter found nothing."""
    chosen = key.partition(",")[2]
    steps = [
        step
        for one in config.get("filter_list") or ()
        if one.get("name") == chosen
        for step in one.get("filter") or ()
    ]
    extracts = [one for one in steps if "regex" in str(one.get("function"))]
    if not extracts:
        return []
    fallback = extracts[-1].get("fallback", _NOTHING_FOUND)
    ours = sorted((s for s in samples if s["filter"] == chosen), key=lambda s: int(s["doc_id"]))
    return [n for n, one in enumerate(ours) if _flat(one["filtered_resps"]) == {fallback}]


def parsed_texts(
    samples: Sequence[Mapping[str, Any]], key: str, config: Mapping[str, Any]
) -> list[str]:
    """What the headline's filter took from each document's answer, if it generates texts."""
    if config.get("output_type") != "generate_until":
        return []
    chosen = key.partition(",")[2]
    ours = sorted((s for s in samples if s["filter"] == chosen), key=lambda s: int(s["doc_id"]))
    return [" ".join(sorted(_flat(one["filtered_resps"]))) for one in ours]


def _flat(value: Any) -> set[str]:
    if isinstance(value, (list, tuple)):
        return {text for one in value for text in _flat(one)}
    return {str(value)}


def _name(key: str) -> str:
    return key.partition(",")[0]


def _display_name(key: str) -> str:
    """``acc,none`` without the filter that is none."""
    return key.removesuffix(",none")


def _named(value: Any) -> Any:
    """A task's setting as JSON, each function by its name."""
    if isinstance(value, Mapping):
        return {str(key): _named(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_named(inner) for inner in value]
    return getattr(value, "__qualname__", "function") if callable(value) else plain(value)


def _failure(kind: Kind, message: str) -> CellFailure:
    return CellFailure(stage="benchmark", kind=kind, message=message)
