"""The adapter contract: a model kept loaded, asked for answers.

An adapter subclasses `Adapter` and writes its abstract methods. The other members have defaults;
override one if its default is wrong for your adapter. `README.md` has a complete example. In short:

    class Echo(Adapter):
        @classmethod
        def digest(cls, source): return f"echo:{source}"
        def load(self): pass
        def configure(self, config): pass
        def answer(self, prompts, generation): return [Answer(text=p.question) for p in prompts]
        def unload(self): pass
        def provenance(self): return {"adapter": "echo"}

Order of calls. The slot makes the adapter, then calls `load` once, `configure` before each cell,
`answer` for each batch, and `unload` at most once.

Devices. The slot's process sees only the devices of the slot. An adapter uses all visible devices
and never chooses one by number.

Imports. The class methods also run on machines without the model or a GPU. So neither the module
nor a class method imports anything heavy: `load` imports torch.

Identity. A cell's identity includes the adapter's name and `version`, the digest of the model and
its kwargs. A change of any of these makes another cell. `outside` names the kwargs that change no
answer. `Model.kwargs` has all kwargs, these too.

Checks. When a campaign is read, `check` tests a model with a config, and `check_generation` tests
generation settings. They return messages for the user and raise nothing.

Failures. Every exception makes the cell fail. A `CellFailure` names its stage and kind. Otherwise
the stage is ``load`` for `__init__`, `load` and `configure`, and ``benchmark`` for `answer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

from benchfleet import registry
from benchfleet.domain.cell import Config, Model
from benchfleet.errors import CellFailure


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One text to continue: `context`, then `question`. An adapter may prefill a context once for
    all prompts that share it. Adapters of chat servers take `messages` with roles too."""

    context: str = ""
    question: str = ""
    messages: tuple[tuple[str, str], ...] = ()  # (role, text), in place of both; for chat alone

    @property
    def text(self) -> str:
        """All of it as one text."""
        if self.messages:
            return "\n".join(text for _, text in self.messages)
        return self.context + self.question


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a model said, and what it cost."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0  # of this prompt; a batch's time is shared out evenly
    measures: Mapping[str, float] = field(default_factory=dict)  # density, …
    finish: str = ""  # why it ended: stop, length, …; "" if the adapter does not say


@dataclass(frozen=True, kw_only=True)
class Loan:
    """A loaded model, lent to a harness that runs the forward passes itself. Each pass uses the
    attention of the cell's config."""

    model: Any  # a model of transformers
    tokenizer: Any  # a copy: the harness may change it
    measures: Callable[[], Mapping[str, float]]  # density, … of the passes since the last call


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """A model behind a server, for a harness that makes the requests itself."""

    name: str  # as requests name it
    url: str  # where requests go
    api: str  # chat or completions
    tokenizer: str  # a folder or a hub name; "" if unknown
    requests_at_once: int
    ask: Callable[[Sequence[Mapping[str, Any]]], list[Any]]  # bodies to replies, with retries


class Adapter(registry.Plugin, ABC):
    """A model kept loaded between cells; see the module for the whole contract."""

    version: ClassVar[int] = 1  # raised when the same model and settings give other answers
    outside: ClassVar[tuple[str, ...]] = ()  # names of kwargs outside the identity: address, …
    keys: ClassVar[tuple[str, ...]] = ()  # kwargs that are keys of a model in the campaign, too
    endpoint: ClassVar[bool] = False  # True: it asks a server elsewhere; its slot has an endpoint
    opens: ClassVar[bool] = True  # False: opens no model; only for benchmarks that need none
    independent: ClassVar[bool] = False  # True: no answer depends on what is asked beside it
    lends: ClassVar[bool] = False  # True: `lend` works
    serves: ClassVar[bool] = False  # True: `served` works
    rounds_cache: ClassVar[bool] = False  # True: it runs configs with a `kv_cache`
    measures: ClassVar[frozenset[str] | None] = None  # names in `Answer.measures`; None: unknown

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def requests_at_once(self) -> int:
        """The prompts that it answers at the same time, if more than a batch; 1: none. Only for
        adapters whose answers do not depend on a prompt's neighbours."""
        return 1

    @classmethod
    @abstractmethod
    def digest(cls, source: str) -> str:
        """The identity of the model at `source`, computed without loading it.

        Raises ValueError, saying what to do, if there is no such model here.
        """

    @classmethod
    def identify(cls, source: str, kwargs: Mapping[str, Any]) -> str:
        """The digest of a model, where its kwargs are needed to find it. Raises as `digest`."""
        return cls.digest(source)

    @classmethod
    def check(cls, model: Model, config: Config) -> str | None:
        """Why this adapter cannot run the model with that config, or None if it can."""
        return None

    @classmethod
    def check_generation(cls, generation: Mapping[str, Any]) -> Mapping[str, str]:
        """For each wrong generation setting its name and a message; empty if all are right."""
        return {}

    @classmethod
    def code(cls, model: Model) -> str:
        """The code that the model's kwargs would run, for a message; ``""`` for none.

        A runner takes such cells from a shared ledger only if its user trusts the ledger.
        """
        return ""

    @classmethod
    def server_command(cls, model: Model, *, gpus: int = 0) -> Sequence[str]:
        """The command line of the server that it starts on so many GPUs; empty if it starts
        none. ``{port}`` stands for the port."""
        return ()

    @classmethod
    def checkpoint(cls, source: str) -> Path | None:
        """The folder with config.json and *.safetensors, or None if the adapter opens no such
        folder. The planner estimates the memory of a cell from it.

        Raises ValueError if the folder is missing.
        """
        return None

    @classmethod
    def fetch(cls, model: Model) -> Path | None:
        """The folder of the model's files on this host, downloaded if needed, or None if scripts
        open `source` as it is. Called in a slot, for scripts that open the model themselves.

        Raises CellFailure if the files cannot be fetched.
        """
        return None

    @abstractmethod
    def load(self) -> None:
        """Bring the model into memory."""

    @abstractmethod
    def configure(self, config: Config) -> None:
        """Switch the loaded model to the config."""

    @abstractmethod
    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        """Answer the prompts as one batch; one answer for each, in their order.

        `generation` has the campaign's settings for the cell, under the campaign's names, and
        always ``seed``.
        """

    def answer_each(
        self, prompts: Sequence[Prompt], generation: Mapping[str, Any]
    ) -> Generator[tuple[int, Answer], None, None]:
        """Each answer as it comes, with the position of its prompt. An `independent` adapter that
        has several prompts under way gives those that were answered before it raises."""
        yield from enumerate(self.answer(prompts, generation))

    @abstractmethod
    def unload(self) -> None:
        """Free the model's memory, also after a `load` that failed. The adapter calls `gc.collect`
        if reference cycles may hold memory."""

    @abstractmethod
    def provenance(self) -> Mapping[str, Any]:
        """What the cell ran with: versions, dtype, device name, revision. Kept with its result."""

    def lend(self) -> AbstractContextManager[Loan]:
        """Lend the loaded and configured model until the context ends. Called only if `lends` is
        True, by benchmarks whose `borrows` is True."""
        raise CellFailure(
            stage="benchmark",
            kind="user_error",
            message=f"the adapter of {self.model.name} does not lend its model to a benchmark "
            "that makes the model's passes itself; exclude the pair",
        )

    def served(self) -> ServedModel:
        """The loaded model for a harness that speaks OpenAI's protocol. Called only if `serves`
        is True."""
        raise NotImplementedError


def adapter_class(name: str) -> type[Adapter]:
    """The adapter of that name. Raises PluginError."""
    return cast(type[Adapter], registry.load("models", name))
