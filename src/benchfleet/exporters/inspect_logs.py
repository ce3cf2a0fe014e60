"""Logs of Inspect (inspect_ai), written by its own library."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.exporters.base import ExportedResult
from benchfleet.exporters.folder import FolderExporter
from benchfleet.exporters.samples import as_text, question_of, targets_of

_SCORER = "benchfleet"
_STOP_REASONS: Mapping[str, Any] = {  # of a model's answer, by how the sample ended
    **dict.fromkeys(("stop", "empty", "unparsed"), "stop"),
    "length": "max_tokens",
    "refused": "content_filter",
}


class InspectExporter(FolderExporter):
    """Logs that `inspect view` shows: one a result."""

    name: ClassVar[str] = "inspect"
    requires: ClassVar[tuple[str, ...]] = ("inspect_ai",)
    extra: ClassVar[str] = "inspect"

    def __init__(self, where: str, campaign: str) -> None:
        super().__init__(where, campaign)
        self.hint = f"inspect view --log-dir {self.where}"

    def files(self, result: ExportedResult) -> Mapping[str, bytes]:
        from inspect_ai.log import write_eval_log

        with tempfile.TemporaryDirectory() as folder:
            draft = Path(folder, "log.eval")
            write_eval_log(_log(result, self.campaign), draft)
            content = draft.read_bytes()
        return {f"{_file_time(result.began)}_{_task(result)}_{_identity(result)}.eval": content}


def _file_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H-%M-%S+00-00")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()


def _identity(result: ExportedResult) -> str:
    return result.fingerprint[:22]  # as long as the identities that Inspect makes


def _task(result: ExportedResult) -> str:
    """The benchmark as Inspect writes tasks in file names, where ``_`` separates."""
    return result.path.split("/")[2].partition("@")[0].replace("_", "-")


def _log(result: ExportedResult, campaign: str) -> Any:
    from inspect_ai.log import (
        EvalConfig,
        EvalDataset,
        EvalLog,
        EvalMetric,
        EvalResults,
        EvalScore,
        EvalSpec,
        EvalStats,
    )

    cell, samples = result.cell, result.samples()
    identities = _identities(samples)
    questions = list(dict.fromkeys(name for name, _ in identities))
    epochs = max((epoch for _, epoch in identities), default=1)
    began, ended = _time(result.began), _time(result.ended)
    scores = [("score", result.score), *result.tasks.items()]
    if result.stderr is not None:
        scores.insert(1, ("stderr", result.stderr))
    metrics = {name: EvalMetric(name=name, value=value) for name, value in scores}
    return EvalLog(
        status="success",
        eval=EvalSpec(
            created=began,
            task=result.path.split("/")[2],
            task_id=_identity(result),
            run_id=_identity(result),
            eval_id=_identity(result),
            task_version=cell.workload.version,
            task_args=dict(cell.workload.params),
            dataset=EvalDataset(
                name=cell.workload.label, samples=len(questions), sample_ids=questions
            ),
            model=f"{cell.model.adapter}/{cell.model.name}",
            model_args=dict(cell.model.model_kwargs),
            config=EvalConfig(limit=cell.workload.limit, epochs=epochs if epochs > 1 else None),
            packages={"benchfleet": str(result.provenance.get("benchfleet", ""))},
            metadata={
                "campaign": campaign,
                "config": cell.config.name,
                "attention": cell.config.identity(),
                "generation": dict(cell.workload.generation),
                "fingerprint": result.fingerprint,
                "digest": result.digest,
                "provenance": dict(result.provenance),
            },
        ),
        results=EvalResults(
            total_samples=len(samples),
            completed_samples=len(samples),
            scores=[EvalScore(name=_SCORER, scorer=_SCORER, metrics=metrics)],
        ),
        stats=EvalStats(started_at=began, completed_at=ended),
        samples=[
            _sample(name, epoch, sample, cell.model.name)
            for (name, epoch), sample in zip(identities, samples, strict=True)
        ],
    )


def _identities(samples: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """The identity and the epoch of each sample: several answers to a question are its epochs.
    Identities that occur twice in an epoch get their index."""
    pairs = [
        (str(sample.get("question") or sample["id"]), int(sample.get("draw") or 0) + 1)
        for sample in samples
    ]
    counts = Counter(pairs)
    return [
        (name if counts[name, epoch] == 1 else f"{name}#{sample['index']}", epoch)
        for (name, epoch), sample in zip(pairs, samples, strict=True)
    ]


def _sample(identity: str, epoch: int, sample: Mapping[str, Any], model: str) -> Any:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ModelOutput, ModelUsage
    from inspect_ai.scorer import Score

    answer = sample["predicted_answer"]
    output = ModelOutput.from_content(
        model, answer, stop_reason=_STOP_REASONS.get(str(sample.get("ended")), "unknown")
    )
    sent, received = sample.get("prompt_tokens", 0), sample.get("completion_tokens", 0)
    output.usage = ModelUsage(
        input_tokens=sent, output_tokens=received, total_tokens=sent + received
    )
    output.time = sample.get("seconds")
    targets = targets_of(sample)
    scores = {_SCORER: Score(value=sample["score"], answer=answer)} if "score" in sample else None
    return EvalSample(
        id=identity,
        epoch=epoch,
        input=question_of(sample),
        target=targets[0] if len(targets) == 1 else targets,
        output=output,
        scores=scores,
        metadata={name: as_text(value) for name, value in (sample.get("columns") or {}).items()},
    )
