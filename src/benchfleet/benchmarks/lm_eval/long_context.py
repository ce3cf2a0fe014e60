"""Benchmarks of long contexts: lm-eval's tasks, with context and question apart.

So any adapter answers them, a context is read once for all its questions, and one that is too long
loses its middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from benchfleet.benchmarks.base import Score

from .benchmark import LmEval
from .dataset import RemoteData
from .groups import tasks_of
from .named import COMMON, EXTRA, OWN_PREFIX, Named, each
from .parts import ContextEnd, Part, after_column
from .score import documents, grouped


class LongContext(Named):
    """Tasks whose context is asked apart; it ends with the column `context`."""

    borrows: ClassVar[bool] = False
    defaults: ClassVar[Mapping[str, Any]] = COMMON
    context_end: ClassVar[ContextEnd | None] = staticmethod(after_column("context"))


class LongBench(LongContext):
    """LongBench: 21 tasks in English and Chinese; scores from 0 to 100."""

    requires: ClassVar[tuple[str, ...]] = (*LmEval.requires, "jieba", "fuzzywuzzy", "rouge")
    extra: ClassVar[str] = EXTRA
    scale: ClassVar[float] = 100.0
    tasks: ClassVar[Mapping[str, str]] = each(
        "longbench_{}",
        "narrativeqa qasper multifieldqa_en multifieldqa_zh hotpotqa 2wikimqa musique dureader "
        "gov_report qmsum multi_news vcsum trec triviaqa samsum lsht passage_count "
        "passage_retrieval_en passage_retrieval_zh lcc repobench-p",
    )


class LongBenchE(LongBench):
    """LongBench-E: 13 tasks with texts of even lengths, and the mean of each length."""

    tasks: ClassVar[Mapping[str, str]] = each(
        "longbench_{}_e",
        "qasper multifieldqa_en hotpotqa 2wikimqa gov_report multi_news trec triviaqa samsum "
        "passage_count passage_retrieval_en lcc repobench-p",
    )

    def refined(self, part: Part, samples: Sequence[Mapping[str, Any]], score: Score) -> Score:
        lengths = [int(doc.get("length", 0)) for doc in documents(samples)]
        names = ["0-4k" if n < 4000 else "4-8k" if n < 8000 else "8k+" for n in lengths]
        return grouped(score, {"length": names})


class LongBenchV2(LongContext):
    """LongBench v2: choices over texts of 8k to 2M words, by difficulty and length.

    `0shot` (also the whole) and `cot` are answers in words, as in its own code; `likelihood` are
    lm-eval's tasks.
    """

    weighted: ClassVar[bool] = True
    tasks: ClassVar[Mapping[str, str]] = each(f"{OWN_PREFIX}longbench_v2_{{}}", "0shot cot")
    _likelihood: ClassVar[str] = "likelihood"

    def subsets(self) -> Sequence[str]:
        return [*self.tasks, self._likelihood]

    def parts(self, subset: str | None) -> Sequence[Part]:
        if subset == self._likelihood:
            names = tasks_of("longbench2", [])
            return [Part(task=name, label=name.removeprefix("longbench2_")) for name in names]
        return super().parts(subset or "0shot")

    def refined(self, part: Part, samples: Sequence[Mapping[str, Any]], score: Score) -> Score:
        docs = documents(samples)
        columns = [name for name in ("difficulty", "length") if all(name in doc for doc in docs)]
        return grouped(score, {name: [str(doc[name]) for doc in docs] for name in columns})


class InfiniteBench(LongContext):
    """InfiniteBench: texts of 100k tokens and more."""

    tasks: ClassVar[Mapping[str, str]] = {
        **each(
            "infinitebench_{}", "passkey kv_retrieval number_string code_run code_debug math_find"
        ),
        "longbook_qa_eng": "infinitebench_longbook_qa_en",
        "longdialogue_qa_eng": "infinitebench_longdialogue_qa_en",
        "longbook_choice_eng": "infinitebench_longbook_choice_en",
        "longbook_sum_eng": "infinitebench_longbook_sum_en",
        "longbook_qa_chn": "infinitebench_longbook_qa_chn",
    }


class Babilong(LongContext):
    """BABILong: facts strewn in books.

    A subset is a length such as `4k`, which is its questions qa1 to qa5, or one question of a
    length such as `qa3_16k`.
    """

    context_end: ClassVar[ContextEnd | None] = staticmethod(after_column("input"))
    _lengths: ClassVar[tuple[str, ...]] = (
        "0k",
        "1k",
        "2k",
        "4k",
        "8k",
        "16k",
        "32k",
        "64k",
        "128k",
    )
    _questions: ClassVar[range] = range(1, 11)
    _short_questions: ClassVar[range] = range(11, 21)  # in texts of no other length than 0k
    _of_a_length: ClassVar[range] = range(1, 6)  # those that lm-eval asks of long texts

    def subsets(self) -> Sequence[str]:
        short = [f"qa{number}_0k" for number in self._short_questions]
        each = [f"qa{number}_{length}" for length in self._lengths for number in self._questions]
        return [*self._lengths, *each, *short]

    def parts(self, subset: str | None) -> Sequence[Part]:
        if subset and subset not in self._lengths:
            return [self._part(subset)]
        lengths = [subset] if subset else self._lengths
        return [self._part(f"qa{n}_{length}") for length in lengths for n in self._of_a_length]

    def remotes(self, part: Part) -> Sequence[RemoteData]:
        question, _, length = part.label.partition("_")
        path = "RMT-team/babilong-1k-samples"
        return [RemoteData(path=path, config=length, splits=(question,))]

    def _part(self, name: str) -> Part:
        question, _, length = name.partition("_")
        return Part(
            task=f"babilong_{question}",
            label=name,
            context_end=type(self).context_end,
            metadata={"max_seq_lengths": length},
        )
