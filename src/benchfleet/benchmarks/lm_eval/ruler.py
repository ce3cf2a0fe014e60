"""RULER (arXiv 2404.06654): data that lm-eval makes for a tokenizer and a length, from a seed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.benchmarks.base import Session
from benchfleet.benchmarks.parameters import whole_number
from benchfleet.benchmarks.source_files import source_digest
from benchfleet.domain.canonical import content_digest

from .benchmark import LmEval
from .dataset import RemoteData
from .long_context import LongContext
from .named import COMMON, EXTRA, each
from .needs import Need
from .nltk_data import NltkData
from .parts import ContextEnd, Part, before_last
from .url_file import UrlFile

_LENGTHS = ("4096", "8192", "16384", "32768")
_LEAST_TOKENS = 256
_LEAST_OF_TASK = {"cwe": 455, "vt": 754}  # words of the shortest prompt with room for its answer
_SAMPLES = 500  # lm-eval's own
_NIAH = "niah_single_1 niah_single_2 niah_single_3 niah_multikey_1 niah_multikey_2 niah_multikey_3"
_OF_ESSAYS = {"niah_single_2", "niah_single_3", "niah_multikey_1"}
_OF_ESSAYS |= {"niah_multivalue", "niah_multiquery"}
_ESSAYS = RemoteData(path="baber/paul_graham_essays", splits=("train",))
_HOTPOT = "namlh2004/hotpotqa/resolve/7e54db4656209750ff487f6fdf8e39a66dba136b"
_QUESTIONS = {
    "qa_1": UrlFile("https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v2.0.json"),
    "qa_2": UrlFile(f"https://huggingface.co/datasets/{_HOTPOT}/hotpot_dev_distractor_v1.json"),
}
_QUESTION_MARKS = (
    "\nWhat are all the special magic",
    "\nWhat is the special magic",
    "\nQuestion: ",
    "\n\nAnswer the question based on the given documents.",
)


class Ruler(LongContext):
    """RULER: needles, variables and word counts in texts of a length in the model's own tokens.

    A subset is a length, which is all 13 tasks at that length, or a task, which is asked at each of
    `lengths`. Parameters beside the usual: `lengths`; `samples` of each task and length;
    `tokenizer`, a folder, where the model has none here. The tasks of essays and of questions
    (niah_single_2, niah_single_3, niah_multikey_1, niah_multivalue, niah_multiquery, qa_1, qa_2)
    need data.
    """

    requires: ClassVar[tuple[str, ...]] = (*LmEval.requires, "wonderwords", "nltk", "scipy")
    extra: ClassVar[str] = EXTRA
    context_end: ClassVar[ContextEnd | None] = staticmethod(before_last(*_QUESTION_MARKS))
    defaults: ClassVar[Mapping[str, Any]] = {
        **COMMON,
        "lengths": [4096],
        "samples": _SAMPLES,
        "tokenizer": None,
    }
    path_params: ClassVar[tuple[str, ...]] = (*LmEval.path_params, "tokenizer")
    tasks: ClassVar[Mapping[str, str]] = {
        **each("{}", f"{_NIAH} niah_multivalue niah_multiquery"),
        **each("ruler_{}", "vt cwe fwe"),
        "qa_1": "ruler_qa_squad",
        "qa_2": "ruler_qa_hotpot",
    }

    def __init__(self, params: Mapping[str, Any], **how: Any) -> None:
        super().__init__(params, **how)
        lengths = self._params["lengths"]
        if not isinstance(lengths, (list, tuple)) or not lengths:
            raise ValueError(f"lengths must be a list, such as [4096, 8192], not {lengths!r}")
        for length in lengths:
            whole_number("each of lengths", length, least=_LEAST_TOKENS)
        whole_number("samples", self._params["samples"], least=1)

    def subsets(self) -> Sequence[str]:
        return [*_LENGTHS, *self.tasks]

    def check_subset(self, subset: str) -> str | None:
        """Any length of 256 tokens or more will do; the named ones are only the usual."""
        if subset.isdecimal() and int(subset) >= _LEAST_TOKENS:
            problem = self.check_data(subset) or None
        else:
            problem = super().check_subset(subset)
        return problem or self._too_short(subset)

    def _too_short(self, subset: str) -> str | None:
        """Which task does not fit into a length, whatever the tokenizer: each word has a token."""
        lengths = [int(subset)] if subset.isdecimal() else self._params["lengths"]
        for task in self.tasks if subset.isdecimal() else [subset]:
            if min(lengths) < (least := _LEAST_OF_TASK.get(task, 0)):
                text = f"the task {task} does not fit into {min(lengths)} tokens"
                return f"{text}; ask for a length of {least} or more, or name other tasks"
        return None

    def parts(self, subset: str | None) -> Sequence[Part]:
        lengths = [str(length) for length in self._params["lengths"]]
        tasks: Sequence[str] = list(self.tasks)
        if subset is None:
            lengths = list(_LENGTHS)
        elif subset.isdecimal():
            lengths = [subset]
        else:
            tasks = [subset]
        folder = self.folder_of("tokenizer")
        own = {"tokenizer": str(folder)} if folder else {}
        return [
            Part(
                task=self.tasks[task],
                label=f"{task} {length}" if len(lengths) > 1 else task,
                context_end=type(self).context_end,
                metadata={**own, "max_seq_lengths": [int(length)]},
            )
            for length in lengths
            for task in tasks
        ]

    def remotes(self, part: Part) -> Sequence[RemoteData]:
        return [_ESSAYS] if _task(part) in _OF_ESSAYS else []

    def needs(self, part: Part) -> Sequence[Need]:
        """Essays, and what NLTK knows of sentences; the questions of other data sets."""
        if _task(part) in _OF_ESSAYS:
            return [_ESSAYS, NltkData("tokenizers/punkt_tab")]
        return [_QUESTIONS[task] for task in _QUESTIONS if task == _task(part)]

    def data_digest(self, subset: str | None) -> str:
        digest = super().data_digest(subset)
        folder = self.folder_of("tokenizer")
        if folder is None:
            return digest
        return content_digest([digest, source_digest(folder, _tokenizer_files(folder))])

    def files(self, subset: str | None) -> Sequence[Path]:
        folder = self.folder_of("tokenizer")
        return [*super().files(subset), *(_tokenizer_files(folder) if folder else ())]

    def build(self, part: Part, session: Session) -> Any:
        """The task, with no more samples than are asked, and with chance of its own."""
        from .ruler_data import made_for

        most = self._params["samples"]
        samples = most if session.limit is None else min(session.limit, most)
        needs = [need for need in self.needs(part) if isinstance(need, UrlFile)]
        local = self.local()
        files = [local.files([need])[0] if local else need.cached(os.environ) for need in needs]
        downloads = {file.name: file for file in files}
        with made_for(session, _module(_task(part)), samples, downloads):
            task = super().build(part, session)
        for length in map(str, part.metadata["max_seq_lengths"]):  # lm-eval names only the usual
            task.aggregation().setdefault(length, task.aggregation()[_LENGTHS[0]])
            task.higher_is_better().setdefault(length, True)
        return task


def _module(task: str) -> str:
    """lm-eval's module that makes the rows of a task."""
    kind = "qa" if task in _QUESTIONS else task.partition("_")[0]
    return f"{kind}_utils"


def _tokenizer_files(folder: Path) -> list[Path]:
    files = [
        file for file in sorted(folder.glob("*")) if file.suffix in (".json", ".model", ".txt")
    ]
    if not folder.is_dir() or not files:
        raise ValueError(f"tokenizer: {folder} holds no tokenizer; name the folder of a saved one")
    return files


def _task(part: Part) -> str:
    return part.label.partition(" ")[0]
