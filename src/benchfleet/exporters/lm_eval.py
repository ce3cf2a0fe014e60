"""The results and samples files of lm-eval 0.4, in the layout of its ``--output_path``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, ClassVar

from benchfleet.domain.document_id import OWN_ID, id_of_document
from benchfleet.exporters.base import ExportedResult
from benchfleet.exporters.folder import FolderExporter
from benchfleet.exporters.samples import targets_of


class LmEvalExporter(FolderExporter):
    """Results JSON and samples of lm-eval, for its viewers: one folder a cell."""

    name: ClassVar[str] = "lm_eval"

    def files(self, result: ExportedResult) -> Mapping[str, bytes]:
        date = datetime.fromtimestamp(result.ended, timezone.utc).strftime("%Y-%m-%dT%H-%M-%S.%f")
        task, metric = _task(result), _metric(result)
        samples = result.samples()
        lines = [json.dumps(_sample(one, metric.partition(",")[0])) + "\n" for one in samples]
        content = json.dumps(_results(result, task, metric, len(samples)), indent=2)
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


def _metric(result: ExportedResult) -> str:
    """The headline's key, ``<name>,<filter>``."""
    return _key(str(result.summary.get("metric") or "score"))


def _key(name: str) -> str:
    return name if "," in name else f"{name},none"


def _results(result: ExportedResult, task: str, metric: str, count: int) -> dict[str, Any]:
    work, model = result.cell.workload, result.cell.model
    scored = count if result.scored_samples is None else result.scored_samples
    values: dict[str, Any] = {"alias": task, "name": task, "sample_len": scored}
    values |= {_key(name): value for name, value in result.tasks.items()}
    values[metric] = result.score
    if result.stderr is not None:
        name, _, chosen = metric.partition(",")
        values[f"{name}_stderr,{chosen}"] = result.stderr
    names = {key.partition(",")[0] for key in values if "," in key}
    return {
        "results": {task: values},
        "group_subtasks": {task: []},
        "configs": {task: {"task": task, "metadata": {"version": work.version, **work.params}}},
        "versions": {task: result.summary.get("task_version", work.version)},
        "n-shot": {task: result.summary.get("num_fewshot") or 0},
        "higher_is_better": {
            task: {name: True for name in sorted(names) if not name.endswith("_stderr")}
        },
        "n-samples": {task: {"original": count, "effective": scored}},
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
            "fingerprint": result.fingerprint,
            "digest": result.digest,
            "config": result.cell.config.name,
            "attention": result.cell.config.identity(),
            "provenance": dict(result.provenance),
        },
    }


def _sample(sample: Mapping[str, Any], metric: str) -> dict[str, Any]:
    targets, doc = targets_of(sample), _document(sample)
    target = targets[0] if len(targets) == 1 else json.dumps(targets)
    answer = sample["predicted_answer"]
    scored = {"metrics": [metric], metric: sample["score"]} if "score" in sample else {}
    return {
        "doc_id": sample["index"],
        "doc": doc,
        "target": target,
        "arguments": {},  # the prompt is not kept
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": "none",
        "doc_hash": _digest(json.dumps(doc, indent=2, ensure_ascii=False)),  # as lm-eval
        "prompt_hash": "",
        "target_hash": _digest(target),
        OWN_ID: sample["id"],
        **scored,
    }


def _document(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document of a task of lm-eval, to whose columns a run here adds some; all columns of
    another benchmark, and of a document whose own column was replaced."""
    columns = dict(sample["columns"])
    columns.pop("loglikelihoods", None)
    identity = str(sample.get("question") or sample["id"])
    number = identity.partition("-")[0]
    for doc in (columns, {name: v for name, v in columns.items() if name != "target"}):
        if id_of_document(number, doc) == identity:
            return doc
    return dict(sample["columns"])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
