"""The benchmark contract: what a benchmark asks a model, and how it scores the answers.

A benchmark subclasses `SampleBenchmark` if it asks sample by sample, and writes `samples` and
`score`; batches, resuming and recording come with it. Otherwise it subclasses `Benchmark` and
writes `run`, which gets a `Session` and returns a `Score`. Both write `params`. The other members
have defaults; override one if its default is wrong for your benchmark.

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
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

from benchfleet import registry
from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.hints import hint
from benchfleet.models.base import Adapter, Prompt, adapter_class

from .asking import ask


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One question of a benchmark."""

    index: int  # its place among all samples, from 0; a resume does not change it
    id: str  # of the question: the same in every config, another for other data
    prompt: Prompt
    columns: Mapping[str, Any] = field(default_factory=dict)  # the dataset's own, for the CSV


@dataclass(frozen=True, kw_only=True)
class Record:
    """A sample with the model's answer, as it is kept in ``samples.jsonl`` before scoring.

    The last record of an index counts. An index below 0 marks a partial answer: it is no sample of
    the result, and only the next attempt reads it, from `Session.recorded`.
    """

    index: int
    id: str
    columns: Mapping[str, Any]
    predicted_answer: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    measures: Mapping[str, float] = field(default_factory=dict)
    resume: Mapping[str, Any] = field(default_factory=dict)  # JSON that the next attempt needs
    withdrawn: bool = False  # True: removes the earlier record of this index
    finish: str = ""  # why the answer ended, as `Answer.finish`

    def to_dict(self) -> dict[str, Any]:
        """As JSON; `resume`, `withdrawn` and `finish` only where set."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("resume", "withdrawn", "finish"):
            if not values[name]:
                del values[name]
        return values

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Record:
        known_names = cls.__dataclass_fields__
        return cls(**{name: item for name, item in value.items() if name in known_names})


@dataclass(frozen=True, kw_only=True)
class Score:
    """What the answers are worth."""

    overall: float  # the headline; larger is better
    per_sample: Sequence[float] = ()  # one for each record, by ascending index; or empty
    tasks: Mapping[str, float] = field(default_factory=dict)  # scores of parts: depth, length, …
    summary: Mapping[str, Any] = field(default_factory=dict)  # anything else worth keeping


class Session(Protocol):
    """The interface between a running benchmark and its slot."""

    model: Model  # as declared
    config: Config  # already configured on the adapter
    subset: str | None
    repeat: int  # 0 for the first
    seed: int
    limit: int | None  # samples at most
    batch_size: int
    generation: Mapping[str, Any]
    recorded: Sequence[Record]  # of earlier attempts; do not ask these again

    @property
    def adapter(self) -> Adapter:
        """The loaded model. Raises RuntimeError if `needs_model` is False."""
        ...

    @property
    def model_path(self) -> str:
        """Where the model's files lie on this host, or the name that its adapter knows."""
        ...

    @property
    def scratch(self) -> Path:
        """A folder of this attempt, empty at first. The files in it when `run` returns or raises
        are kept with the results; symbolic links are not."""
        ...

    def record(self, record: Record) -> None:
        """Store one answer at once, before scoring.

        If the cell has to stop, raises a BaseException that is no Exception: do not catch it.
        """
        ...

    def expect(self, total: int) -> None:
        """Announce the number of samples, for the progress display."""
        ...

    def check_stop(self) -> None:
        """Raise as `record` does if the cell has to stop. For long work between records."""
        ...

    def asking(self, count: int, *, sample: int | None = None) -> AbstractContextManager[None]:
        """Wrap one call of the model: ``limits.generation`` limits its time. `count` is the number
        of prompts, `sample` the index of the first, if known."""
        ...


def withdraw(session: Session, records: Iterable[Record]) -> None:
    """Remove records of an earlier attempt that are not samples any more, since the data changed on
    the hub."""
    for record in records:
        session.record(
            Record(
                index=record.index, id=record.id, columns={}, predicted_answer="", withdrawn=True
            )
        )


class Benchmark(registry.Plugin, ABC):
    """A benchmark by name; see the module for the whole contract."""

    version: ClassVar[str] = "1"  # raised when the same parameters give other data or scores
    default_generation: ClassVar[Mapping[str, Any]] = {}  # the campaign file overrides it
    needs_model: ClassVar[bool] = True  # False: its slot holds no model while it runs
    borrows: ClassVar[bool] = False  # True: uses `Adapter.lend`; the adapter's `lends` must be True
    borrows_served: ClassVar[bool] = False  # True: it can use `Adapter.served` instead
    reads_generation: ClassVar[bool] = False  # True: skips `Adapter.check_generation`
    takes_folder: ClassVar[bool] = False  # True: the parameter `folder` is the campaign's folder
    reports: ClassVar[frozenset[str] | None] = None  # numbers of `Score.summary`; None: unknown yet
    takes_identity: ClassVar[bool] = False  # True: its parameter `identity` replaces the digest
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

    def data_digest(self, subset: str | None) -> str:
        """The digest of local files; ``""`` if version and parameters determine the data."""
        return ""

    def files(self, subset: str | None) -> Sequence[Path]:
        """The user's own files that it reads, and the folders that must exist."""
        return ()

    def data_sources(self) -> Mapping[str, bool]:
        """The data sets of others that it reads, and whether each is here; asks no network."""
        return {}

    def missing_data(self, subset: str | None) -> str:
        """Why its data are neither on this host nor in reach, or ``""``. Asked once before a run,
        and may use the network for some seconds."""
        return ""

    def longest_prompt(self, subset: str | None) -> int | None:
        """The longest prompt in characters, or None if only the data tell. The planner estimates
        memory from it, or else from the longest text that the model takes."""
        return None

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


class SampleBenchmark(Benchmark):
    """A benchmark whose samples are known in advance and do not depend on each other."""

    @abstractmethod
    def samples(self, subset: str | None, seed: int) -> Iterable[Sample]:
        """The samples by ascending index; keep those that share a context together."""

    @abstractmethod
    def score(self, records: Sequence[Record]) -> Score:
        """Score the records, which come in the order of their samples."""

    def run(self, session: Session) -> Score:
        """Ask the samples not yet recorded, batch by batch, then score all."""
        samples = list(islice(self.samples(session.subset, session.seed), session.limit))
        session.expect(len(samples))
        expected = {(sample.index, sample.id) for sample in samples}  # data may have changed since
        records = {r.index: r for r in session.recorded if (r.index, r.id) in expected}
        withdraw(session, (r for r in session.recorded if (r.index, r.id) not in expected))
        pending = [sample for sample in samples if sample.index not in records]
        batches = [pending] if pending else []
        if pending and not session.adapter.independent:
            starts = range(0, len(samples), session.batch_size)
            batches = [samples[start : start + session.batch_size] for start in starts]
        for batch in batches:
            if all(sample.index in records for sample in batch):
                continue
            # Whole, as it would have been asked at first: numbers depend on a prompt's neighbours.
            for position, answer in ask(
                session.adapter,
                [sample.prompt for sample in batch],
                session.generation,
                asking=session.asking,
                sample=batch[0].index,
            ):
                sample = batch[position]
                if sample.index in records:
                    continue
                record = Record(
                    index=sample.index,
                    id=sample.id,
                    columns=sample.columns,
                    predicted_answer=answer.text,
                    prompt_tokens=answer.prompt_tokens,
                    completion_tokens=answer.completion_tokens,
                    seconds=answer.seconds,
                    measures=answer.measures,
                    finish=answer.finish,
                )
                records[sample.index] = record
                session.record(record)
        return self.score([records[sample.index] for sample in samples])
