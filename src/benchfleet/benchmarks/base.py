"""The benchmark contract: what is asked of a model, and how its answers are scored.

A benchmark subclasses `Benchmark`, or `SampleBenchmark` where it is sample by sample, as most
are: that does batching, resuming and recording, and its subclasses write `samples` and `score`
only. It is made from the parameters of the campaign file and runs inside a slot: `run` is handed
a `Session` and returns a `Score`.

The abstract methods are all that a benchmark must have. The other members have defaults, and a
benchmark overrides those that say something of it.

The data of a cell follow from version, parameters, subset, the digest of local files and the
seed alone: the same for every model and config, and different for each repeat. Importing a
benchmark's module imports nothing heavy.

A benchmark that reads a user's own files names them by `files`, so that they can be sent to
another host. On that host they lie elsewhere, under one folder as they do here: every absolute
path that `outside` gives is changed to there, and all others are to be taken from one of those.

Before a cell runs, the slot asks for `data_digest` again where there was one: data or code that
changed since the campaign was read are refused.
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


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One question of a benchmark."""

    index: int  # 0 for the first; the sample's place, whatever was resumed
    id: str  # of the question itself: the same in every config, another for other data
    prompt: Prompt
    columns: Mapping[str, Any] = field(default_factory=dict)  # the dataset's own, for the CSV


@dataclass(frozen=True, kw_only=True)
class Record:
    """A sample with the model's answer, as it is kept in ``samples.jsonl`` before scoring.

    What is recorded last of an index counts. One below 0 is no sample of the result: it is kept
    only while the cell is at work, so that the next attempt need not ask that again.
    """

    index: int
    id: str
    columns: Mapping[str, Any]
    predicted_answer: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    measures: Mapping[str, float] = field(default_factory=dict)
    resume: Mapping[str, Any] = field(default_factory=dict)  # JSON: what else spares asking again
    withdrawn: bool = False  # True: there is no such sample any more

    def to_dict(self) -> dict[str, Any]:
        """As JSON; `resume` and `withdrawn` only where set."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("resume", "withdrawn"):
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

    overall: float  # the benchmark's headline, larger is better
    per_sample: Sequence[float] = ()  # aligned with the records: what paired statistics use
    tasks: Mapping[str, float] = field(default_factory=dict)  # by part: depth, length, …
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
    recorded: Sequence[Record]  # from an earlier attempt: not to be asked again

    @property
    def adapter(self) -> Adapter:
        """The loaded model. Raises RuntimeError where the benchmark said that it needs none."""
        ...

    @property
    def model_path(self) -> str:
        """Where the model's files lie on this host, or the name that its adapter knows."""
        ...

    @property
    def scratch(self) -> Path:
        """A folder of this attempt's own, empty at first. What is left in it when `run` returns
        or raises is kept with the results; links are not."""
        ...

    def record(self, record: Record) -> None:
        """Hand over one answer; it is kept at once, before anything is scored.

        Ends the benchmark here where the cell is to stop, with an exception that is no
        `Exception`: let it pass.
        """
        ...

    def expect(self, total: int) -> None:
        """Announce the number of samples, for the progress display."""
        ...

    def check_stop(self) -> None:
        """End the benchmark here where the cell is to stop, as `record` does: for what runs long
        without recording."""
        ...

    def asking(self, count: int, *, sample: int | None = None) -> AbstractContextManager[None]:
        """Around one call of the model with that many prompts, the first of them `sample` where
        it is known: what is bounded by ``limits.generation``."""
        ...


def withdraw(session: Session, records: Iterable[Record]) -> None:
    """Take back what an earlier attempt recorded and the benchmark does not ask any more: its
    data may have changed on the hub."""
    for record in records:
        session.record(
            Record(
                index=record.index, id=record.id, columns={}, predicted_answer="", withdrawn=True
            )
        )


class Benchmark(registry.Plugin, ABC):
    """A benchmark by name; see the module for the whole contract."""

    version: ClassVar[str] = "1"  # raised when the same parameters give other data or scores
    default_generation: ClassVar[Mapping[str, Any]] = {}  # under what the campaign file says
    needs_model: ClassVar[bool] = True  # False: its slot holds no model while it runs
    borrows: ClassVar[bool] = False  # True: it makes the model's passes itself (`Adapter.lends`)
    reads_generation: ClassVar[bool] = False  # True: its own code, so the adapter checks none
    takes_folder: ClassVar[bool] = False  # True: the parameter `folder` is the campaign's folder
    subsets_key: ClassVar[str] = "subsets"  # of a campaign file, where its users say "tasks"
    name: str = ""  # by which results and rules call one that stands for many, such as scripts

    def __init__(self, params: Mapping[str, Any]) -> None:
        """From the parameters of the campaign file; this one takes none. Raises ValueError with
        what to do for those it does not take."""
        if params:
            raise ValueError(f"takes no parameter; remove {', '.join(map(repr, params))}")

    @abstractmethod
    def params(self) -> Mapping[str, Any]:
        """Every parameter with its value, defaults filled in: this enters the identity."""

    def outside(self) -> Mapping[str, Any]:
        """Parameters that are no part of the identity, such as a folder or a time limit."""
        return {}

    def subsets(self) -> Sequence[str]:
        """The subsets it is known by; empty where it has none."""
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
        """The digest of local data files; ``""`` where version and parameters say it all."""
        return ""

    def files(self, subset: str | None) -> Sequence[Path]:
        """The user's own files that it reads, and folders that must be there."""
        return ()

    def longest_prompt(self, subset: str | None) -> int | None:
        """The longest prompt in characters, where that is known without opening the data. The
        memory of a cell is estimated by it, else by the longest text that the model takes."""
        return None

    @classmethod
    def code(cls, workload: Workload) -> str:
        """Which code the parameters name that would be run, such as a command; ``""`` for none.

        Cells of a shared ledger that name code are run only by those who trust it.
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
    """A benchmark whose samples are known beforehand and stand for themselves."""

    @abstractmethod
    def samples(self, subset: str | None, seed: int) -> Iterable[Sample]:
        """The samples in their order; those that share a context stand side by side."""

    @abstractmethod
    def score(self, records: Sequence[Record]) -> Score:
        """Score the records, which come in the order of their samples."""

    def run(self, session: Session) -> Score:
        """Ask what was not recorded yet, batch by batch, then score all of it."""
        samples = list(islice(self.samples(session.subset, session.seed), session.limit))
        session.expect(len(samples))
        expected = {(sample.index, sample.id) for sample in samples}  # data may have changed since
        records = {r.index: r for r in session.recorded if (r.index, r.id) in expected}
        withdraw(session, (r for r in session.recorded if (r.index, r.id) not in expected))
        for start in range(0, len(samples), session.batch_size):
            batch = samples[start : start + session.batch_size]
            if all(sample.index in records for sample in batch):
                continue
            # Whole, as it would have been asked at first: numbers depend on a prompt's neighbours.
            with session.asking(len(batch), sample=batch[0].index):
                answers = session.adapter.answer([s.prompt for s in batch], session.generation)
            for sample, answer in zip(batch, answers, strict=True):
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
                )
                records[sample.index] = record
                session.record(record)
        return self.score([records[sample.index] for sample in samples])
