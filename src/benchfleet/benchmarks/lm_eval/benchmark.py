"""lm-eval as a benchmark whose subsets are its tasks, each run by one call on the loaded model."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.benchmarks.base import Benchmark, Score, Session, withdraw
from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Workload
from benchfleet.environment import offline

from .dataset import RemoteData
from .failures import failure
from .groups import tasks_of
from .harness import (
    build_task,
    document_count,
    evaluate_prompted,
    evaluate_served,
    evaluate_task,
    seed_shots,
    warn_of_equal_answers,
    without_local_rank,
)
from .local_data import LocalData, redirected
from .needs import Need
from .nltk_data import nltk_from
from .parameters import DEFAULTS, checked
from .parts import (
    Part,
    PartSession,
    after_column,
    combined,
    interleaved,
    part_session,
    scaled,
    whole_text,
)
from .ranges import boundaries
from .score import scored
from .tasks import (
    TaskFile,
    built_in_digest,
    built_in_file,
    check_built_in,
    own_files,
    own_task,
    remote_data_of,
)


class LmEval(Benchmark):
    """Any task of lm-eval; a subset is a task's name, or that of a group or tag.

    Parameters: `name`, how results call it instead of ``lm_eval``; `include_path`, a folder with
    your own tasks; `data`, a folder with the data sets; `context`, the column whose text is asked
    apart from the question; `num_fewshot`; `metric` that makes the headline; and as lm-eval has
    them, `metadata`, `apply_chat_template`, `fewshot_as_multiturn`, `system_instruction`,
    `add_bos_token` and `max_length`.
    """

    requires: ClassVar[tuple[str, ...]] = ("lm_eval", "torch", "transformers")
    extra: ClassVar[str] = "lm-eval"
    example: ClassVar[str] = "- lm_eval: {tasks: [arc_easy, hellaswag]}"
    takes_folder: ClassVar[bool] = True
    borrows: ClassVar[bool] = True
    splits: ClassVar[bool] = True
    borrows_served: ClassVar[bool] = True
    reports: ClassVar[frozenset[str] | None] = frozenset({"num_fewshot", "task_version"})
    subsets_key: ClassVar[str] = "tasks"
    defaults: ClassVar[Mapping[str, Any]] = DEFAULTS
    # Their content enters the identity, not their names.
    path_params: ClassVar[tuple[str, ...]] = ("include_path", "data")
    weighted: ClassVar[bool] = False  # by the samples of its tasks, where a cell has several

    def __init__(
        self, params: Mapping[str, Any], *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        values = {key: value for key, value in params.items() if key != "folder"}
        self._folder = str(params.get("folder", ""))
        self._params = checked(values, self.defaults)
        self.name = self._params.get("name") or ""
        self._clock = clock

    @classmethod
    def code(cls, workload: Workload) -> str:
        path = workload.outside.get("include_path")  # their YAML may call functions
        return f"tasks of its own in {path}" if path else ""

    def params(self) -> Mapping[str, Any]:
        """All but where tasks and data lie, whose content enters by `data_digest`."""
        later = ("context", "name")  # only where they are set, as in older cells
        unset = {name for name in later if self._params.get(name) is None}
        return {k: v for k, v in self._params.items() if k not in {*self.path_params, *unset}}

    def outside(self) -> Mapping[str, Any]:
        """Where tasks and data lie."""
        named = {name: self._params[name] for name in self.path_params if name in self.defaults}
        paths = {name: path for name, path in named.items() if path or name == "include_path"}
        return {"folder": self._folder, **paths}

    def parts(self, subset: str | None) -> Sequence[Part]:
        """The tasks of a cell, in their order."""
        column = self._params["context"]
        end = after_column(column) if column else None
        return [Part(task=subset or "", label=subset or "", context_end=end)]

    def harness_tasks(self, subset: str | None) -> Sequence[str]:
        return [part.task for part in self.parts(subset)]

    def remotes(self, part: Part) -> Sequence[RemoteData]:
        """The data sets that a task reads."""
        remote = remote_data_of(part.task, self.own(part.task))
        return [remote] if remote else []

    def needs(self, part: Part) -> Sequence[Need]:
        """All that a task reads and that may have to be fetched."""
        return self.remotes(part)

    def own(self, name: str) -> TaskFile | None:
        """The task of that name where it is none of lm-eval's."""
        return own_task(folder, name) if (folder := self.folder_of("include_path")) else None

    def expand_subset(self, subset: str) -> Sequence[str]:
        """The tasks of a group or a tag; the name itself for all others."""
        try:
            if self.own(subset) or built_in_file(subset):
                return [subset]
            return tasks_of(subset, self._own_files())
        except ValueError:
            return [subset]  # `check_subset` says what is wrong

    def check_subset(self, subset: str) -> str | None:
        """Whether there is such a task, and its data where they must not be fetched."""
        try:
            if self.own(subset) is None and (message := self._unknown(subset)):
                return message
            return self.check_data(subset) or None
        except ValueError as error:
            return str(error)

    def check_data(self, subset: str | None) -> str:
        """What data are neither in the folder nor in the cache, where none may be fetched."""
        if self.folder_of("data") or not offline(os.environ, datasets=True):
            return ""
        messages = (need.missing_message(os.environ) for need in self._needs(self.parts(subset)))
        return next((message for message in messages if message), "")

    def downloads(self, subset: str | None) -> Sequence[Need]:
        return [] if self.folder_of("data") else self._needs(self.parts(subset))

    def missing_data(self, subset: str | None) -> str:
        """Whether its data set is neither in the cache nor in reach of the network."""
        if self.folder_of("data"):
            return ""
        try:
            needs = self._needs(self.parts(subset))
        except ValueError:
            return ""
        messages = (need.unreachable_message(os.environ) for need in needs)
        return next((message for message in messages if message), "")

    def data_digest(self, subset: str | None) -> str:
        if subset is None and type(self).subsets_key == "tasks":
            raise ValueError("names no task; write tasks: [gsm8k], one cell for each")
        parts = self.parts(subset)
        digests = [own.digest() if (own := self.own(p.task)) else built_in_digest() for p in parts]
        if local := self.local():
            digests += [local.digest(self._needs(parts))]
        return digests[0] if len(digests) == 1 else content_digest(digests)

    def files(self, subset: str | None) -> Sequence[Path]:
        """The files of a task of the user's own, and the data that it reads from a folder."""
        parts = self.parts(subset)
        owns = [own for part in parts if (own := self.own(part.task))] if self._own_files() else []
        files = [file for own in owns for file in (*own.sources, *own.data)]
        if local := self.local():
            files += local.files(self._needs(parts))
        return list(dict.fromkeys(files))

    def run(self, session: Session) -> Score:
        """Ask what was not recorded yet, record and score."""
        parts, local = self.parts(session.subset), self.local()
        asks = session.config.chat is not None or session.config.thinking is not None
        borrows = not asks and not all(part.context_end for part in parts)
        if borrows and not (session.adapter.lends or session.adapter.serves):
            session.adapter.lend()  # raises with what to do
        with (
            without_local_rank(),
            redirected(local, [remote for part in parts for remote in self.remotes(part)]),
            nltk_from(local.folder if local else None),
        ):
            tasks = [self.build(part, session) for part in parts]
            counts = [document_count(task, session.limit) for task in tasks]
            warn_of_equal_answers(tasks, session)
            draws, questions = session.samples_per_question, range(sum(counts))
            starts = [sum(counts[:number]) for number in range(len(counts))]
            if session.part:
                cuts = [
                    start + cut
                    for part, task, start, count in zip(parts, tasks, starts, counts, strict=True)
                    for cut in boundaries(task, count, part.context_end)
                ]
                questions = session.part.positions(cuts, len(questions))
            outside = (
                r for r in session.recorded if r.index >= 0 and r.index // draws not in questions
            )
            withdraw(session, outside)
            session.expect(len(questions) * draws)
            scores = []
            for part, task, start, count in zip(parts, tasks, starts, counts, strict=True):
                own = range(max(questions.start - start, 0), min(questions.stop - start, count))
                sessions = [part_session(session, start, own, draw) for draw in range(draws)]
                if own or not session.part:
                    scores.append(interleaved([self._score(part, task, one) for one in sessions]))
        if session.part:  # the whole cell is scored once its parts are joined
            return Score(overall=0.0, per_sample=[])
        weights = counts if self.weighted else [1] * len(parts)
        score = scaled(combined(parts, scores, weights), self.scale)
        return replace(score, summary={**score.summary, "attention": self._attention(session)})

    def _score(self, part: Part, task: Any, session: PartSession) -> Score:
        """The score of one answer to each question of a task."""
        if session.samples_per_question > 1:
            if task.get_config("output_type") != "generate_until":
                message = f"{part.task} compares likelihoods, which are the same in each draw"
                raise failure("user_error", f"{message}; remove samples_per_question")
            seed_shots(task, session)
        results = self._evaluated(part, task, session)
        if session.part:
            return Score(overall=0.0, per_sample=[])
        score = scored(
            results,
            task.task_name,
            metric=self._params["metric"],
            aggregations=task.aggregation(),
        )
        return self.refined(part, results["samples"][task.task_name], score)

    def build(self, part: Part, session: Session) -> Any:
        """One task with its data."""
        serves = session.adapter.serves
        tokenizer = session.adapter.served().tokenizer if serves else session.model_path
        settings = {**self._params, "metadata": self._params.get("metadata") or part.metadata}
        needs = [] if self.folder_of("data") else self.needs(part)
        return build_task(part.task, self.own(part.task), session, tokenizer, settings, needs)

    def refined(self, part: Part, samples: Sequence[Mapping[str, Any]], score: Score) -> Score:
        """The score of one task with what else its samples, as lm-eval has them, tell."""
        return score

    def _evaluated(self, part: Part, task: Any, session: PartSession) -> Mapping[str, Any]:
        chats = session.config.chat is not None or session.config.thinking is not None
        if chats and task.get_config("output_type") != "generate_until":
            message = f"{part.task} compares likelihoods, so a config's chat or thinking has no use"
            raise failure("user_error", f"{message}; exclude the pair")
        if part.context_end or chats:
            end = part.context_end or whole_text
            return evaluate_prompted(task, session, end, self._params, clock=self._clock)
        if session.adapter.serves:
            served = session.adapter.served()
            return evaluate_served(task, session, served, self._params, clock=self._clock)
        with session.adapter.lend() as loan:
            return evaluate_task(task, session, loan, self._params, clock=self._clock)

    def _attention(self, session: Session) -> str:
        if not any(step.name != "dense" for step in session.config.attention):
            return "dense"
        apart = all(part.context_end for part in self.parts(session.subset))
        dense_context = apart and not session.config.everywhere
        return "sparse for question and answer" if dense_context else "sparse in every pass"

    def _needs(self, parts: Iterable[Part]) -> list[Need]:
        needs: list[Need] = []
        for need in (need for part in parts for need in self.needs(part)):
            needs += [] if need in needs else [need]
        return needs

    def _unknown(self, subset: str) -> str | None:
        tasks_of(subset, own := self._own_files())  # raises for a group that cannot be used
        return check_built_in(subset, own)

    def _own_files(self) -> Sequence[Path]:
        return own_files(folder) if (folder := self.folder_of("include_path")) else ()

    def local(self) -> LocalData | None:
        """The folder of the data sets where one is named."""
        return LocalData(folder) if (folder := self.folder_of("data")) else None

    def folder_of(self, name: str) -> Path | None:
        """The folder that a parameter names, whole."""
        path = self._params.get(name)
        if path is None:
            return None
        return Path(os.path.abspath(Path(self._folder, os.path.expanduser(path))))
