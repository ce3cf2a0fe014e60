"""The results and samples files of lm-eval 0.4, in the layout of its ``--output_path``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, ClassVar

from benchfleet.domain.lm_eval_layout import (
    DOCUMENTS,
    LIKELIHOODS,
    OWN_ANSWER,
    OWN_ID,
    TASK_METRICS,
    id_of_document,
)
from benchfleet.exporters.base import ExportedResult
from benchfleet.exporters.folder import FolderExporter
from benchfleet.exporters.samples import targets_of


class LmEvalExporter(FolderExporter):
    """Results JSON and samples of lm-eval, for its viewers: one folder a cell."""

    name: ClassVar[str] = "lm_eval"

    def files(self, result: ExportedResult) -> Mapping[str, bytes]:
        date = datetime.fromtimestamp(result.ended, timezone.utc).strftime("%Y-%m-%dT%H-%M-%S.%f")
        task, samples = _task(result), result.samples()
        headline, metrics = _metrics(result)
        lines = [json.dumps(_sample(one, headline)) + "\n" for one in samples]
        parsed = any("parsed" in one for one in samples)
        content = json.dumps(_results(result, task, headline, metrics, parsed), indent=2)
        return {
            f"{result.path}/samples_{task}_{date}.jsonl": "".join(lines).encode(),
            f"{result.path}/results_{date}.json": content.encode(),
        }


def _task(result: ExportedResult) -> str:
    work = result.cell.workload
    name = work.subset or "" if work.benchmark == "lm_eval" else work.name
    if work.benchmark != "lm_eval" and work.subset:
        name += f"_{work.subset}"
    return "".join(c if c.isalnum() or c in "-." else "_" for c in name)


@dataclass(frozen=True, kw_only=True)
class _Metric:
    """A metric on lm-eval's scale, by its name and the filter of the answers."""

    name: str
    filter: str = "none"
    value: float
    stderr: float | None = None
    higher_is_better: bool | None = None  # None: unknown
    factor: float = 1.0  # of a sample's score here

    @property
    def values(self) -> dict[str, float]:
        """Its entries in the results."""
        error = {} if self.stderr is None else {f"{self.name}_stderr,{self.filter}": self.stderr}
        return {f"{self.name},{self.filter}": self.value, **error}


def _metrics(result: ExportedResult) -> tuple[_Metric, list[_Metric]]:
    """The headline, and all metrics in the task's order; the headline goes first where the order
    is unknown."""
    headline = str(result.summary.get("metric") or "score")
    facts = {str(one["name"]): one for one in result.summary.get(TASK_METRICS, ())}
    order = {name: facts.get(name, {}) for name in (*facts, headline, *result.tasks)}
    metrics = {
        name: _metric(result, name, about, is_headline=name == headline)
        for name, about in order.items()
        if name in result.tasks or name == headline
    }
    return metrics[headline], [*metrics.values()]


def _metric(
    result: ExportedResult, key: str, about: Mapping[str, Any], *, is_headline: bool
) -> _Metric:
    name, _, chosen = key.partition(",")
    value = result.tasks.get(key, result.score)
    stderr, higher_is_better = about.get("stderr"), about.get("higher_is_better")
    sign = 1.0
    if is_headline:  # the negative of a metric of which less is better
        sign = -1.0 if value * result.score < 0 else 1.0
        stderr = None if result.stderr is None else result.stderr / result.scale
        if higher_is_better is None and (value or key not in result.tasks):
            higher_is_better = sign > 0
    return _Metric(
        name=name,
        filter=chosen or "none",
        value=value / result.scale,
        stderr=stderr,
        higher_is_better=higher_is_better,
        factor=sign / result.scale,
    )


def _results(
    result: ExportedResult, task: str, headline: _Metric, metrics: Sequence[_Metric], parsed: bool
) -> dict[str, Any]:
    work, model = result.cell.workload, result.cell.model
    counts = _counts(result)
    values: dict[str, Any] = {"alias": task, "name": task, "sample_len": counts["effective"]}
    for metric in metrics:
        values |= metric.values
    settings = {"task": task, "metadata": {"version": work.version, **work.params}}
    # The cell that reads it back takes the metric that it names itself, or else the headline; one
    # that this cell named is no headline of a cell that names none.
    own = {} if work.params.get("metric") else {"metric": f"{headline.name},{headline.filter}"}
    return {
        "results": {task: values},
        "group_subtasks": {task: []},
        "configs": {task: settings | ({"output_type": "generate_until"} if parsed else {})},
        "versions": {task: result.summary.get("task_version", work.version)},
        "n-shot": {task: result.summary.get("num_fewshot") or 0},
        "higher_is_better": {
            task: {
                one.name: one.higher_is_better
                for one in metrics
                if one.higher_is_better is not None
            }
        },
        "n-samples": {task: counts},
        "config": {
            "model": model.adapter,
            "model_args": {"pretrained": model.name, **model.model_kwargs},
            "batch_size": str(work.batch_size or "auto"),
            "limit": work.limit,
            "gen_kwargs": dict(work.generation),
            "random_seed": result.cell.data_seed,
        },
        "date": result.began,
        "start_time": result.began,
        "end_time": result.ended,
        "total_evaluation_time_seconds": str(sum(result.seconds.values())),
        "model_source": model.adapter,
        "model_name": model.name,
        "model_name_sanitized": result.path.partition("/")[0],
        "lm_eval_version": result.summary.get("lm_eval", ""),
        "benchfleet": {
            **own,
            "fingerprint": result.fingerprint,
            "digest": result.digest,
            "config": result.cell.config.name,
            "attention": result.cell.config.identity(),
            "provenance": dict(result.provenance),
        },
    }


def _counts(result: ExportedResult) -> dict[str, int]:
    """The documents of the task, where they are known, and those that the score is over."""
    work, count = result.cell.workload, int(result.summary.get("samples") or 0)
    scored = count if result.scored_samples is None else result.scored_samples
    total = (result.summary.get(DOCUMENTS) or {}).get("original")
    if total is not None:
        total *= work.samples_per_question
    elif work.limit is None or count < work.limit * work.samples_per_question:
        total = count
    return ({} if total is None else {"original": total}) | {"effective": scored}


def _sample(sample: Mapping[str, Any], metric: _Metric) -> dict[str, Any]:
    targets, doc = targets_of(sample), _document(sample)
    target = targets[0] if len(targets) == 1 else json.dumps(targets)
    answer = sample["predicted_answer"]
    resps, filtered, own = [[answer]], [sample.get("parsed", answer)], {}
    if LIKELIHOODS in sample["columns"] and LIKELIHOODS not in doc:
        filtered = _likelihoods(sample)
        resps, own = [[one] for one in filtered], {OWN_ANSWER: answer}
    if "score" in sample:
        own |= {"metrics": [metric.name], metric.name: sample["score"] * metric.factor}
    return {
        "doc_id": sample["index"],
        "doc": doc,
        "target": target,
        "arguments": {},  # the prompt is not kept
        "resps": resps,
        "filtered_resps": filtered,
        "filter": metric.filter,
        "doc_hash": _digest(json.dumps(doc, indent=2, ensure_ascii=False)),  # as lm-eval
        "prompt_hash": "",
        "target_hash": _digest(target),
        OWN_ID: sample["id"],
        **own,
    }


def _likelihoods(sample: Mapping[str, Any]) -> list[Any]:
    """The answer to each request in texts, as lm-eval has it: a log-likelihood, and for a
    continuation whether it is the likeliest, which only results of a run here know."""
    answers = [entry[1] for entry in (sample.get("resume") or {}).get("asked", ())]
    values = sample["columns"][LIKELIHOODS]
    if len(answers) != len(values):
        return [[str(value), None] for value in values]
    return [[str(v) for v in one] if isinstance(one, list) else str(one) for one in answers]


def _document(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document of a task of lm-eval, to whose columns a run here adds some; all columns of
    another benchmark, and of a document whose own column was replaced."""
    columns = dict(sample["columns"])
    columns.pop(LIKELIHOODS, None)
    identity = str(sample.get("question") or sample["id"])
    number = identity.partition("-")[0]
    for doc in (columns, {name: v for name, v in columns.items() if name != "target"}):
        if id_of_document(number, doc) == identity:
            return doc
    return dict(sample["columns"])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
