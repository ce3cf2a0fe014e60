"""The adapter contract: a model kept loaded, asked for answers.

An adapter subclasses `Adapter`. It is made in a slot, which is bound to its devices before Python
starts: an adapter never chooses a device by number, it takes all that it sees. `load` is called
once, `configure` before each cell, `answer` for each batch, `unload` at most once. Importing an
adapter's module imports nothing heavy: torch and friends are imported inside `load`.

The abstract methods are all that an adapter must have. The other members have defaults, and an
adapter overrides those that say something of it. Class methods are called before anything runs,
on machines that may not hold the model, and import nothing heavy either.

The adapter's name and version, the digest of the model and its kwargs enter the identity of a
cell: a change of any makes it another cell. Kwargs that change no answer are named by `outside`:
an address, a time limit, concurrency. An adapter takes all of them from `Model.kwargs`.

Everything an adapter raises becomes the cell's failure. A `CellFailure` names its stage and
kind; any other exception in `load` is a failure of stage ``load``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

from benchfleet import registry
from benchfleet.domain.cell import Config, Model
from benchfleet.errors import CellFailure


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


@dataclass(frozen=True, kw_only=True)
class Loan:
    """A loaded model in the hands of a harness, the config's attention in all of its passes."""

    model: Any  # of transformers
    tokenizer: Any  # a copy: the harness may change it
    measures: Callable[[], Mapping[str, float]]  # density, … of the passes since the last call


class Adapter(registry.Plugin, ABC):
    """A model kept loaded between cells; see the module for the whole contract."""

    version: ClassVar[int] = 1  # raised when the same model and settings give other answers
    outside: ClassVar[tuple[str, ...]] = ()  # model kwargs that are no part of the identity
    opens: ClassVar[bool] = True  # False: it serves only benchmarks that need no model
    lends: ClassVar[bool] = False  # True: `lend` hands the loaded model of transformers over

    def __init__(self, model: Model) -> None:
        self.model = model

    @classmethod
    @abstractmethod
    def digest(cls, source: str) -> str:
        """The identity of what `source` holds, computed without loading it.

        Raises ValueError with what to do where there is no such model here.
        """

    @classmethod
    def check(cls, model: Model, config: Config) -> str | None:
        """Why this adapter cannot run that config, or None."""
        return None

    @classmethod
    def check_generation(cls, generation: Mapping[str, Any]) -> Mapping[str, str]:
        """What is wrong with generation settings and what to do about it, by their names."""
        return {}

    @classmethod
    def code(cls, model: Model) -> str:
        """Which code the model's kwargs name that would be run; ``""`` for none.

        Cells of a shared ledger that name code are run only by those who trust it.
        """
        return ""

    @classmethod
    def checkpoint(cls, source: str) -> Path | None:
        """The folder of a checkpoint in the usual layout (config.json, *.safetensors), or None
        where the adapter opens none. The memory that a cell takes is estimated from it.

        Raises ValueError where it should be here and is not.
        """
        return None

    @classmethod
    def fetch(cls, model: Model) -> Path | None:
        """The folder of the model's files on this host, fetched where they are not here yet, or
        None where `source` itself is what opens it. Called in a slot, for scripts that open the
        model by themselves.

        Raises CellFailure where it cannot be had.
        """
        return None

    @abstractmethod
    def load(self) -> None:
        """Bring the model into memory."""

    @abstractmethod
    def configure(self, config: Config) -> None:
        """Switch to the config on the loaded weights."""

    @abstractmethod
    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        """Answer the prompts as one batch, in order."""

    @abstractmethod
    def unload(self) -> None:
        """Let the memory go; what hangs together in cycles is its own to collect."""

    @abstractmethod
    def provenance(self) -> Mapping[str, Any]:
        """What was effective: versions, dtype, device name, revision."""

    def lend(self) -> AbstractContextManager[Loan]:
        """The loaded model, configured, for as long as the context lasts: for a harness that
        makes its own passes. Only where `lends` is True."""
        raise CellFailure(
            stage="benchmark",
            kind="user_error",
            message=f"the adapter of {self.model.name} does not lend its model to a benchmark "
            "that makes the model's passes itself; exclude the pair",
        )


def adapter_class(name: str) -> type[Adapter]:
    """The adapter of that name. Raises PluginError."""
    return cast(type[Adapter], registry.load("models", name))
