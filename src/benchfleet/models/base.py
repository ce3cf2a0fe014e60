"""The adapter contract: a model kept loaded, asked for answers.

An adapter is made in a slot, which is bound to its devices before Python starts, so that an
adapter never chooses a device by number: it takes all that it sees. `load` is called once,
`configure` before each cell, `answer` for each batch, `unload` at most once. Importing an
adapter's module imports nothing heavy: torch and friends are imported inside `load`.

An adapter that opens a checkpoint in the usual layout (config.json, *.safetensors) may say where
it lies, by a classmethod ``folder(source: str) -> Path`` that raises ValueError where there is
none: what a cell takes of memory is then estimated before it runs.

One that has such files on this host may also say where they are by a classmethod
``folder_of(model: Model) -> Path``, called in a slot, which fetches them where they are not here
yet: scripts that open a model by themselves are told that path.

An adapter that holds a model of transformers may lend it to a harness that makes its own passes:
it is a `Lender` then. One that opens nothing says ``opens = False``: it serves those benchmarks
alone that need no model.

One that does not take every generation setting says which are wrong, by a classmethod
``check_generation(generation: Mapping[str, Any]) -> Mapping[str, str]``: what is wrong with each
and what to do about it, by the setting's name. It is called before anything runs, with the
settings of each benchmark that asks the adapter, and imports nothing heavy.

One whose kwargs may name code that is run says what by a classmethod ``code(model: Model) -> str``,
``""`` where they name none: what a shared ledger tells of such cells is run only by those who
trust it.

Everything an adapter raises becomes the cell's failure. A `CellFailure` names its stage and
kind; any other exception in `load` is a failure of stage ``load``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from benchfleet.domain.cell import Config, Model


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One text to continue. The context may be prefilled once and kept for the next prompts
    that share it; `question` is what follows it (``""`` where the benchmark has one text)."""

    context: str
    question: str = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a model said, and what it cost."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0  # of this prompt; a batch's time is shared out evenly
    measures: Mapping[str, float] = field(default_factory=dict)  # density, …


class Adapter(Protocol):
    """A model kept loaded between cells; see the module for the whole contract."""

    requires: ClassVar[tuple[str, ...]]  # modules that must be importable, such as ("torch",)
    extra: ClassVar[str]  # the extra of benchfleet that brings them; "" where none is needed

    def __init__(self, model: Model) -> None: ...

    @classmethod
    def digest(cls, source: str) -> str:
        """The identity of what `source` holds, computed without loading it.

        Raises ValueError with what to do where there is no such model here.
        """
        ...

    @classmethod
    def check(cls, model: Model, config: Config) -> str | None:
        """Why this adapter cannot run that config, or None. Called before anything runs."""
        ...

    def load(self) -> None:
        """Bring the model into memory."""
        ...

    def configure(self, config: Config) -> None:
        """Switch to the config on the loaded weights."""
        ...

    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        """Answer the prompts as one batch, in order."""
        ...

    def unload(self) -> None:
        """Let the memory go; what hangs together in cycles is its own to collect."""
        ...

    def provenance(self) -> Mapping[str, Any]:
        """What was effective: versions, dtype, device name, revision."""
        ...


@dataclass(frozen=True, kw_only=True)
class Loan:
    """A loaded model in the hands of a harness, the config's attention in all of its passes."""

    model: Any  # of transformers
    tokenizer: Any  # a copy: the harness may change it
    measures: Callable[[], Mapping[str, float]]  # density, … of the passes since the last call


@runtime_checkable
class Lender(Protocol):
    """An adapter that lets others run the model it has loaded."""

    def lend(self) -> AbstractContextManager[Loan]:
        """The loaded model, configured, for as long as the context lasts."""
        ...
