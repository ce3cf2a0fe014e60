"""The adapter contract: a model kept loaded, asked for answers.

An adapter is made in a slot, which is bound to its devices before Python starts, so that an
adapter never chooses a device by number: it takes all that it sees. `load` is called once,
`configure` before each cell, `answer` for each batch, `unload` at most once. Importing an
adapter's module imports nothing heavy: torch and friends are imported inside `load`.

Everything an adapter raises becomes the cell's failure. A `CellFailure` names its stage and
kind; any other exception in `load` is a failure of stage ``load``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

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
        """Let the memory go."""
        ...

    def provenance(self) -> Mapping[str, Any]:
        """What was effective: versions, dtype, device name, revision."""
        ...
