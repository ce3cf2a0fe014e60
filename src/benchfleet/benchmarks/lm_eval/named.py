"""Benchmarks by name: each is tasks of lm-eval, whose version is part of the identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.benchmarks.base import Benchmark, Score
from benchfleet.domain.cell import Workload

from .benchmark import LmEval
from .needs import Need
from .nltk_data import NltkData
from .parts import ContextEnd, Part
from .tasks import TaskFile, own_task

OWN_PREFIX = "benchfleet_"  # of tasks that benchfleet brings along
COMMON: Mapping[str, Any] = {
    "data": None,
    "num_fewshot": None,
    "metric": None,
    "apply_chat_template": False,
    "fewshot_as_multiturn": True,
    "system_instruction": None,
}
EXTRA = "benchmarks"
_OWN_TASKS = Path(__file__).parent / "own_tasks"


def each(pattern: str, names: str) -> Mapping[str, str]:
    """lm-eval's task of each name: the pattern with the name in it."""
    return {name: pattern.format(name) for name in names.split()}


class Named(LmEval):
    """lm-eval's tasks under a name of their own, with subsets.

    Parameters: `data`, a folder with the data set; `num_fewshot`, `metric`, `apply_chat_template`,
    `fewshot_as_multiturn` and `system_instruction` as of `lm_eval`.
    """

    example: ClassVar[str] = ""  # made from the subsets
    subsets_key: ClassVar[str] = "subsets"
    defaults: ClassVar[Mapping[str, Any]] = {**COMMON, "add_bos_token": None, "max_length": None}
    tasks: ClassVar[Mapping[str, str]]  # the name of each subset to lm-eval's task; "" if alone
    context_end: ClassVar[ContextEnd | None] = None  # asked apart where given

    @classmethod
    def code(cls, workload: Workload) -> str:
        return ""

    def subsets(self) -> Sequence[str]:
        return [name for name in self.tasks if name]

    def expand_subset(self, subset: str) -> Sequence[str]:
        return (subset,)

    def check_subset(self, subset: str) -> str | None:
        """Whether there is such a subset, and its data where they must not be fetched."""
        return Benchmark.check_subset(self, subset) or self.check_data(subset) or None

    def parts(self, subset: str | None) -> Sequence[Part]:
        """The task of a subset; all of them for the whole benchmark."""
        names = self.tasks if subset is None else [subset]
        end = type(self).context_end
        return [Part(task=self.tasks[name], label=name, context_end=end) for name in names]

    def own(self, name: str) -> TaskFile | None:
        """The file of a task that benchfleet brings along."""
        return own_task(_OWN_TASKS, name) if name.startswith(OWN_PREFIX) else None


class Aime(Named):
    """Contest problems with answers from 0 to 999, and the share of answers in a box."""

    reports: ClassVar[frozenset[str] | None] = frozenset({"extraction_rate"})

    def refined(self, part: Part, samples: Sequence[Mapping[str, Any]], score: Score) -> Score:
        answers = [str(response) for sample in samples for (response, *_) in sample["resps"]]
        boxed = sum("\\boxed" in answer or "\\fbox" in answer for answer in answers)
        rate = boxed / max(len(answers), 1)
        return replace(score, summary={**score.summary, "extraction_rate": rate})


class Aime2024(Aime):
    """AIME 2024: 30 contest problems; exact answers, and the share of answers in a box."""

    tasks: ClassVar[Mapping[str, str]] = {"": "aime24"}


class Aime2025(Aime):
    """AIME 2025: 30 contest problems; exact answers, and the share of answers in a box."""

    tasks: ClassVar[Mapping[str, str]] = {"": "aime25"}


class MmluPro(Named):
    """MMLU-Pro: questions with up to ten choices in 14 subjects, answered in words."""

    weighted: ClassVar[bool] = True
    tasks: ClassVar[Mapping[str, str]] = each(
        "mmlu_pro_{}",
        "biology business chemistry computer_science economics engineering health history law math "
        "other philosophy physics psychology",
    )


class Gsm8k(Named):
    """GSM8K: grade school mathematics, five examples."""

    tasks: ClassVar[Mapping[str, str]] = {"": "gsm8k"}


class Gpqa(Named):
    """GPQA: graduate questions that a search does not answer, in words, step by step.

    The whole is `diamond`: the other two hold its questions.
    """

    tasks: ClassVar[Mapping[str, str]] = each("gpqa_{}_cot_zeroshot", "diamond main extended")

    def parts(self, subset: str | None) -> Sequence[Part]:
        return super().parts(subset or "diamond")


class IFEval(Named):
    """IFEval: instructions whose following can be checked."""

    requires: ClassVar[tuple[str, ...]] = (*LmEval.requires, "langdetect", "immutabledict", "nltk")
    extra: ClassVar[str] = EXTRA
    tasks: ClassVar[Mapping[str, str]] = {"": "ifeval"}

    def needs(self, part: Part) -> Sequence[Need]:
        """The data set, and the sentences that NLTK knows."""
        return [*super().needs(part), NltkData("tokenizers/punkt_tab")]
