"""LooGLE, whose tasks benchfleet brings along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from benchfleet.benchmarks.base import Score
from benchfleet.benchmarks.scoring import mean
from benchfleet.errors import CellFailure

from .benchmark import LmEval
from .long_context import LongContext
from .named import COMMON, EXTRA, OWN_PREFIX, each
from .needs import Need
from .nltk_data import NltkData
from .parts import Part
from .score import documents


class Loogle(LongContext):
    """LooGLE: questions, clozes and summaries of texts of 24k tokens and more.

    Parameters beside the usual: `bertscore`, a model such as roberta-large, adds BERTScore.
    """

    requires: ClassVar[tuple[str, ...]] = (*LmEval.requires, "nltk", "rouge")
    extra: ClassVar[str] = EXTRA
    reports: ClassVar[frozenset[str] | None] = frozenset()
    defaults: ClassVar[Mapping[str, Any]] = {**COMMON, "bertscore": None}
    tasks: ClassVar[Mapping[str, str]] = each(
        f"{OWN_PREFIX}loogle_{{}}", "shortdep_qa longdep_qa shortdep_cloze longdep_summarization"
    )

    def needs(self, part: Part) -> Sequence[Need]:
        """The data set, and the words that METEOR knows."""
        return [*super().needs(part), NltkData("corpora/wordnet")]

    def refined(self, part: Part, samples: Sequence[Mapping[str, Any]], score: Score) -> Score:
        model = self._params["bertscore"]
        if model is None or part.label == "shortdep_cloze":
            return score
        answers = {int(sample["doc_id"]): str(sample["resps"][0][0]) for sample in samples}
        right = [str(doc["answer"]) for doc in documents(samples)]
        similar = _bert_score(model, right, [answers[number] for number in sorted(answers)])
        return replace(score, tasks={**score.tasks, "bertscore": similar})


def _bert_score(model: str, right: Sequence[str], answers: Sequence[str]) -> float:
    """The mean of what LooGLE's own code takes: the second value, the right answers first."""
    try:
        from bert_score import model2layers, score
    except ImportError as error:
        raise CellFailure(
            stage="collect",
            kind="missing_extra",
            message="bertscore needs bert-score; pip install 'benchfleet[benchmarks]'",
        ) from error
    from transformers import AutoConfig

    layers = model2layers.get(model.rstrip("/").rpartition("/")[2])
    layers = layers or AutoConfig.from_pretrained(model).num_hidden_layers
    values = score(list(right), list(answers), model_type=model, num_layers=layers)[1]
    return mean([float(value) for value in values])
