"""The card of a model on the Hugging Face Hub: its evaluation results, and a table of them.

The results are in the card's metadata (``model-index``), which the hub reads. The table stands
between two marks in the text. The rest of a card is kept, and so are results of other sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from benchfleet.errors import ExportError
from benchfleet.exporters.base import ExportedResult, Exporter
from benchfleet.exporters.hub_repository import HubRepository
from benchfleet.exporters.score_table import Score, score_table

_CARD = "README.md"
_FROM, _TO = "<!-- benchfleet: results -->", "<!-- benchfleet: end -->"
_SECTION = re.compile(re.escape(_FROM) + ".*?" + re.escape(_TO), re.DOTALL)


class ModelCardExporter(Exporter):
    """The model card of one model: evaluation results and a table of scores."""

    destination: ClassVar[str] = "hf://OWNER/MODEL or a model's folder"
    requires: ClassVar[tuple[str, ...]] = ("huggingface_hub",)
    extra: ClassVar[str] = "hub"

    def __init__(self, where: str, campaign: str) -> None:
        super().__init__(where or f"{campaign}-model_card", campaign)
        self._repository = HubRepository(self.where, "model")

    def digests(self) -> Mapping[str, str]:
        return {
            one.dataset_args["fingerprint"]: one.dataset_args["digest"]
            for one in self._evaluations(self._card())
            if _is_ours(one)
        }

    def put(self, results: Sequence[ExportedResult]) -> None:
        from huggingface_hub import EvalResult

        models = {result.cell.model.name for result in results}
        if len(models) > 1:
            raise ExportError(
                f"a card is of one model, not of {', '.join(sorted(models))}; "
                "select one with --only models=NAME"
            )
        card = self._card()
        replaced = {result.fingerprint for result in results}
        evaluations = [
            one
            for one in self._evaluations(card)
            if not (_is_ours(one) and one.dataset_args["fingerprint"] in replaced)
        ]
        evaluations += [EvalResult(**_evaluation(result)) for result in results]
        ours = [one for one in evaluations if _is_ours(one)]
        card.data.model_name = card.data.model_name or next(iter(models), "")
        card.data.eval_results = evaluations
        section = f"{_FROM}\n## Evaluation results\n\n{score_table(map(_score, ours))}\n{_TO}"
        text, count = _SECTION.subn(lambda _: section, card.text)
        card.text = text if count else f"{card.text.rstrip()}\n\n{section}\n"
        self._repository.write({_CARD: str(card).encode()})

    def _card(self) -> Any:
        from huggingface_hub import ModelCard

        content = self._repository.read(_CARD) or b"---\n{}\n---\n"
        try:
            return ModelCard(content.decode(), ignore_metadata_errors=False)
        except ValueError as error:
            raise ExportError(f"{self.where}/{_CARD} is no model card: {error}") from error

    @staticmethod
    def _evaluations(card: Any) -> list[Any]:
        return list(card.data.eval_results or [])


def _is_ours(evaluation: Any) -> bool:
    return "fingerprint" in (evaluation.dataset_args or {})


def _score(evaluation: Any) -> Score:
    return Score(
        config=str(evaluation.dataset_config),
        benchmark=evaluation.dataset_name,
        value=float(evaluation.metric_value),
        stderr=evaluation.dataset_args.get("stderr"),
    )


def _evaluation(result: ExportedResult) -> dict[str, Any]:
    work = result.cell.workload
    return {
        "task_type": "text-generation",
        "dataset_type": work.name,
        "dataset_name": work.label,
        "dataset_config": result.cell.config.name,
        "metric_type": str(result.summary.get("metric") or "score"),
        "metric_name": f"{work.label}, {result.cell.config.name}",
        "metric_value": result.score,
        "dataset_args": {
            "fingerprint": result.fingerprint,
            "digest": result.digest,
            "repeat": result.cell.repeat,
            "stderr": result.stderr,
            "samples": result.scored_samples,
        },
    }
