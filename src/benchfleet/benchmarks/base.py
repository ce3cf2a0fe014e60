"""The benchmark contract: what a benchmark asks a model, and how it scores the answers.

A benchmark subclasses `SampleBenchmark` to ask sample by sample, and writes `samples` and `score`;
batches, resuming and recording come with it. Otherwise it subclasses `Benchmark` and writes `run`,
which gets a `Session` and returns a `Score`. Both write `params`. The rest has defaults.

A benchmark is made from the parameters of the campaign file and runs inside a slot. Importing its
module imports nothing heavy.

Data. The data of a cell depend only on version, parameters, subset, the digest of local files and
the seed. They are the same for every model and config, and differ between repeats.

Local files. A benchmark that reads a user's own files does three things:

* `files` returns them, and `data_digest` their digest. Only with a digest are they sent to another
  host.
* `outside` returns the parameters that hold their absolute paths. On another host the files lie
  under another folder, and these paths are changed to it. So derive every path from `outside`.
* The slot asks for `data_digest` again before a cell runs. It refuses the cell if the digest
  changed since the campaign was read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, cast

from benchfleet import registry
from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Cell, Workload
from benchfleet.domain.question_draws import draw_id
from benchfleet.download import Download
from benchfleet.errors import PluginError
from benchfleet.hints import hint
from benchfleet.models.base import Answer, Prompt, adapter_class

from . import bootstrap
from .asking import answer_fields, ask, context_digest, generation_of_draw
from .records import Record, Sample, Score, checked_score
from .session import Session

__all__ = ["Benchmark", "Record", "Sample", "SampleBenchmark", "Score", "Session"]


def withdraw(session: Session, records: Iterable[Record]) -> None:
    """Remove records of an earlier attempt that are not samples any more, since the data changed on
    the hub."""
    for one in records:
        session.record(
            Record(index=one.index, id=one.id, columns={}, predicted_answer="", withdrawn=True)
        )


class Benchmark(registry.Plugin, ABC):
    """A benchmark by name."""

    version: ClassVar[str] = "1"  # raised when the same parameters give other data or scores
    default_generation: ClassVar[Mapping[str, Any]] = {}  # the campaign file overrides it
    needs_model: ClassVar[bool] = True  # False: its slot holds no model while it runs
    borrows: ClassVar[bool] = False  # True: uses `Adapter.lend`; the adapter's `lends` must be True
    borrows_served: ClassVar[bool] = False  # True: it can use `Adapter.served` instead
    abilities: ClassVar[tuple[str, ...]] = ()  # that a server must have; see `Adapter.abilities`
    exclusive: ClassVar[bool] = False  # True: nothing else uses its devices or endpoint meanwhile
    loads_server: ClassVar[bool] = False  # True: uses `Adapter.load_target`
    reads_generation: ClassVar[bool] = False  # True: skips `Adapter.check_generation`
    reads_settings: ClassVar[bool] = False  # True: uses the `settings` of `Session.config`
    takes_folder: ClassVar[bool] = False  # True: the parameter `folder` is the campaign's folder
    reports: ClassVar[frozenset[str] | None] = None  # numbers of `Score.summary`; None: unknown yet
    takes_identity: ClassVar[bool] = False  # True: its parameter `identity` replaces the digest
    splits: ClassVar[bool] = False  # True: `run` respects `Session.part`
    rescores: ClassVar[bool] = True  # False: it can score only while it asks
    # Why it cannot be split, where `splits` is False.
    why_whole: ClassVar[str] = "its samples depend on each other, or are not known"
    # Why `plan --prompts` cannot show what it asks; "" if it asks by `Session.adapter`.
    why_unseen: ClassVar[str] = ""
    scale: ClassVar[float] = 1.0  # of its scores, where the harness has 0 to 1
    measures_speed: ClassVar[bool] = False  # True: hardware that cells name is part of identity
    subsets_key: ClassVar[str] = "subsets"  # the campaign key of its subsets, such as "tasks"
    name: str = ""  # name in results and rules, if one class runs many benchmarks; "": the plugin's

    def __init__(self, params: Mapping[str, Any]) -> None:
        """From the parameters of the campaign file; the default takes none. Raises ValueError,
        saying what to do, for an unknown or wrong parameter."""
        if params:
            raise ValueError(f"takes no parameter; remove {', '.join(map(repr, params))}")

    @abstractmethod
    def params(self) -> Mapping[str, Any]:
        """The parameters that are part of the cell's identity, with defaults filled in."""

    def outside(self) -> Mapping[str, Any]:
        """The other parameters, such as a folder or a time limit. The slot makes the benchmark
        again from `params` and `outside`."""
        return {}

    def subsets(self) -> Sequence[str]:
        """The names of all subsets; empty if it has none."""
        return ()

    def expand_subset(self, subset: str) -> Sequence[str]:
        """The subsets that a name in the campaign file stands for."""
        return (subset,)

    def check_subset(self, subset: str) -> str | None:
        """What is wrong with a subset's name, or None."""
        known_names = self.subsets()
        if subset in known_names:
            return None
        if not known_names:
            return f"this benchmark has no subsets; remove {subset!r}"
        return f"no subset {subset!r}; {hint(subset, known_names)}"

    def check_data(self, subset: str | None) -> str:
        """What data are not on this host where none may be fetched, or ``""``."""
        return ""

    def data_digest(self, subset: str | None) -> str:
        """The digest of local files; ``""`` if version and parameters determine the data."""
        return ""

    def files(self, subset: str | None) -> Sequence[Path]:
        """The user's own files that it reads, and the folders that must exist."""
        return ()

    def downloads(self, subset: str | None) -> Sequence[Download]:
        """What it reads from the network."""
        return ()

    def missing_data(self, subset: str | None) -> str:
        """Why its data are neither on this host nor in reach, or ``""``. Asked once before a run,
        and may use the network for some seconds."""
        return ""

    def longest_prompt(self, subset: str | None) -> int | None:
        """The longest prompt in characters, or None if only the data tell. The planner estimates
        memory from it, or else from the longest text that the model takes."""
        return None

    def harness_tasks(self, subset: str | None) -> Sequence[str]:
        """The names that the harness it wraps has for the tasks of a cell. ``import`` finds the
        cell of a result by them."""
        return ()

    @classmethod
    def code(cls, workload: Workload) -> str:
        """The code that the parameters would run, such as a command; ``""`` for none.

        A runner takes such cells from a shared ledger only if its user trusts the ledger.
        """
        return ""

    @abstractmethod
    def run(self, session: Session) -> Score:
        """Ask, record and score."""


def benchmark_class(name: str) -> type[Benchmark]:
    """The benchmark of that name. Raises PluginError."""
    return cast(type[Benchmark], registry.load("benchmarks", name))


def loads_model(cell: Cell) -> bool:
    """Whether the cell has its model loaded in the slot."""
    needed = benchmark_class(cell.workload.benchmark).needs_model
    return needed and adapter_class(cell.model.adapter).opens


def rescores(cell: Cell) -> bool:
    """Whether recorded answers are scored without the model."""
    return not benchmark_class(cell.workload.benchmark).borrows


@cache
def _is_exclusive(name: str) -> bool:
    try:
        return benchmark_class(name).exclusive
    except (PluginError, ImportError):  # it cannot run here either
        return False


def is_exclusive(cell: Cell) -> bool:
    """Whether nothing else may use the cell's devices or endpoint meanwhile."""
    return _is_exclusive(cell.workload.benchmark)


class SampleBenchmark(Benchmark):
    """A benchmark whose samples are known in advance and do not depend on each other.

    A cell of it may be split. If samples with different contexts depend on each other, set `splits`
    to False.
    """

    splits = True

    takes_length: ClassVar[bool] = False  # True: an answer of `max_new_tokens` is no cut-off one

    @abstractmethod
    def samples(self, subset: str | None, seed: int) -> Iterable[Sample]:
        """The samples by ascending index; keep those that share a context together."""

    @abstractmethod
    def score(self, records: Sequence[Record]) -> Score:
        """Score the records, which come in the order of their samples."""

    def finish(self, answer: Answer) -> str:
        """Why the answer ended; with `takes_length`, one of the full length is whole."""
        return "stop" if self.takes_length and answer.finish == "length" else answer.finish

    def run(self, session: Session) -> Score:
        """Ask the samples not yet recorded, batch by batch, then score all. With several answers to
        each question, all first answers come first; each draw has a seed of its own."""
        selected = list(islice(self.samples(session.subset, session.seed), session.limit))
        if session.part:
            part = session.part.positions(_boundaries(selected), len(selected))
            selected = selected[part.start : part.stop]
        count = session.samples_per_question
        draws = [[_draw(sample, n, count) for sample in selected] for n in range(count)]
        expected = {(sample.index, sample.id): sample for draw in draws for sample in draw}
        records = {
            record.index: record
            for record in session.recorded
            if (sample := expected.get((record.index, record.id)))
            and record.request in ("", _request(session, sample.prompt))
        }
        withdraw(session, (r for r in session.recorded if records.get(r.index) is not r))
        session.expect(count * len(selected))
        for number, samples in enumerate(draws):
            self._ask(session, samples, number, records)
        if session.part:  # the whole cell is scored once its parts are joined
            return Score(overall=0.0, per_sample=[])
        ordered = [records[index] for index in sorted(records)]
        return bootstrap.with_error(checked_score(self.score(ordered), self), self.score, ordered)

    def _ask(
        self,
        session: Session,
        samples: Sequence[Sample],
        draw: int,
        records: dict[int, Record],
    ) -> None:
        """Ask for one answer to each question, and add the records."""
        generation = generation_of_draw(session.generation, draw)
        pending = [sample for sample in samples if sample.index not in records]
        batches = [pending] if pending else []
        if pending and not session.adapter.independent:
            starts = range(0, len(samples), session.batch_size)
            batches = [list(samples[start : start + session.batch_size]) for start in starts]
        for batch in batches:
            if all(sample.index in records for sample in batch):
                continue
            # Whole, as it would have been asked at first: numbers depend on a prompt's neighbours.
            prompts = [sample.prompt for sample in batch]
            for position, answer in ask(session, prompts, generation, sample=batch[0].index):
                sample = batch[position]
                if sample.index in records:
                    continue
                question = sample.question
                if session.samples_per_question > 1:
                    question = sample.id.rpartition("~")[0] if draw else sample.id
                record = Record(
                    index=sample.index,
                    id=sample.id,
                    columns=sample.columns,
                    context=sample.context or context_digest(sample.prompt.context),
                    request=_request(session, sample.prompt),
                    question=question,
                    draw=draw,
                    **{**answer_fields(answer), "finish": self.finish(answer)},
                )
                records[sample.index] = record
                session.record(record)


def _boundaries(samples: Sequence[Sample]) -> list[int]:
    """Where the samples may be cut: not within a context. Batches play no role, since a retry after
    memory ran out has smaller ones."""
    contexts = [sample.prompt.context for sample in samples]
    return [
        position
        for position, context in enumerate(contexts)
        if not (position and context) or context != contexts[position - 1]
    ]


def _draw(sample: Sample, draw: int, count: int) -> Sample:
    """The sample as one of `count` answers to its question."""
    index = sample.index * count + draw
    return replace(sample, index=index, id=draw_id(sample.id, draw)) if count > 1 else sample


def _request(session: Session, prompt: Prompt) -> str:
    """The digest of what is asked: the prompt and the settings, without the seed of a draw."""
    messages = [list(one) for one in prompt.messages]
    content = [prompt.context, prompt.question, messages, dict(session.generation)]
    return content_digest(content)[:16]
