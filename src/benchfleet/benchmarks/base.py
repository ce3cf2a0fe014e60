"""The benchmark contract: what is asked of a model, and how its answers are scored.

A benchmark is made from the parameters of the campaign file (`__init__` raises ValueError with
what to do for those it does not take) and runs inside a slot: `run` is handed a `Session` and
returns a `Score`. Most benchmarks are sample by sample and derive from `SampleBenchmark`, which
does batching, resuming and recording; they write `samples` and `score` only.

The data of a cell follow from version, parameters, subset, the digest of local files and the
seed alone: the same for every model and config, and different for each repeat. Importing a
benchmark's module imports nothing heavy.

A benchmark that knows it without opening its data may say how long its prompts get, by a method
``longest_prompt(subset: str | None) -> int`` in characters: the memory of a cell is estimated
by it, and otherwise by the longest text that the model takes.

A benchmark that stands for many, such as a user's scripts, has a ``name``, by which results and
rules call it. One that asks no model through the adapter says ``needs_model = False``: its slot
then holds no model while it runs. One that reads files of the campaign's own says
``takes_folder = True``: it is made with the campaign's folder as the parameter ``folder``. What of
its parameters is no part of the identity, such as that folder, it tells by ``outside()``.

One that makes the model's passes itself, and so asks for an adapter that lends its model, says
``needs_lender = True``: with any other adapter it is refused before anything runs. One whose own
code reads the generation settings, so that the adapter is not to check them, says
``reads_generation = True``.

A benchmark whose subsets go by another word in a campaign, such as tasks, says so by
``subsets_named``.

A benchmark that reads files of a user's own names them by ``files(subset: str | None) ->
Sequence[Path]``, so that they can be sent to another host, and folders that must be there. On that
host they lie elsewhere, under one folder as they do here: every absolute path that ``outside()``
tells is changed to there, and all others are to be taken from one of those.

A benchmark whose parameters name code that it runs, such as a command, says what by a classmethod
``code(workload: Workload) -> str``, ``""`` where they name none: what a shared ledger tells of
such cells is run only by those who trust it.

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
from typing import Any, ClassVar, Protocol

from benchfleet.domain.cell import Config, Model
from benchfleet.models.base import Adapter, Prompt


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
        """As JSON has it; what few benchmarks say is left out where nothing is said."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("resume", "withdrawn"):
            if not found[name]:
                del found[name]
        return found

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Record:
        known = cls.__dataclass_fields__
        return cls(**{name: item for name, item in value.items() if name in known})


@dataclass(frozen=True, kw_only=True)
class Score:
    """What the answers are worth."""

    overall: float  # the benchmark's headline, larger is better
    per_sample: Sequence[float] = ()  # aligned with the records: what paired statistics use
    tasks: Mapping[str, float] = field(default_factory=dict)  # by part: depth, length, …
    summary: Mapping[str, Any] = field(default_factory=dict)  # anything else worth keeping


class Session(Protocol):
    """What a running benchmark is given. Made by the slot."""

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
        """Say how many samples there will be, for the progress shown."""
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


class Benchmark(Protocol):
    """A benchmark by name; see the module for the whole contract."""

    version: ClassVar[str]  # changes whenever the same parameters give other data or scores
    default_generation: ClassVar[Mapping[str, Any]]  # under what the campaign file says

    def __init__(self, params: Mapping[str, Any]) -> None: ...

    def params(self) -> Mapping[str, Any]:
        """Every parameter with its value, defaults filled in: this enters the identity."""
        ...

    def subsets(self) -> Sequence[str]:
        """The subsets it is known by; empty where it has none."""
        ...

    def check_subset(self, subset: str) -> str | None:
        """What is wrong with a subset's name, or None."""
        ...

    def data_digest(self, subset: str | None) -> str:
        """The digest of local data files; ``""`` where version and parameters say it all."""
        ...

    def run(self, session: Session) -> Score:
        """Ask, record and score."""
        ...


class SampleBenchmark(ABC):
    """A benchmark whose samples are known beforehand and stand for themselves."""

    version: ClassVar[str]
    default_generation: ClassVar[Mapping[str, Any]] = {}

    @abstractmethod
    def samples(self, subset: str | None, seed: int) -> Iterable[Sample]:
        """The samples in their order; those that share a context stand side by side."""

    @abstractmethod
    def score(self, records: Sequence[Record]) -> Score:
        """Score the records, which come in the order of their samples."""

    def subsets(self) -> Sequence[str]:
        return ()

    def check_subset(self, subset: str) -> str | None:
        from difflib import get_close_matches

        known = self.subsets()
        if subset in known:
            return None
        if not known:
            return f"this benchmark has no subsets; remove {subset!r}"
        near = get_close_matches(subset, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
        return f"no subset {subset!r}; {hint}"

    def data_digest(self, subset: str | None) -> str:
        return ""

    def run(self, session: Session) -> Score:
        """Ask what was not recorded yet, batch by batch, then score all of it."""
        samples = list(islice(self.samples(session.subset, session.seed), session.limit))
        session.expect(len(samples))
        wanted = {(sample.index, sample.id) for sample in samples}  # data may have changed since
        records = {r.index: r for r in session.recorded if (r.index, r.id) in wanted}
        withdraw(session, (r for r in session.recorded if (r.index, r.id) not in wanted))
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
