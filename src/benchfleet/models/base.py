"""The adapter contract: a model kept loaded, asked for answers.

An adapter subclasses `Adapter` and writes its abstract methods. The other members have defaults;
override one if its default is wrong for your adapter. `README.md` has a complete example. In short:

    class Echo(Adapter):
        @classmethod
        def digest(cls, source): return f"echo:{source}"
        def load(self): pass
        def configure(self, config): pass
        def answer(self, prompts, generation): return [Answer(text=p.text) for p in prompts]
        def unload(self): pass
        def provenance(self): return {"adapter": "echo"}

Order of calls. The slot makes the adapter, then calls `load` once, `switch` and `configure` before
each cell, `answer` for each batch, and `unload` at most once.

Devices. The slot's process sees only the devices of the slot. An adapter uses all visible devices
and never chooses one by number.

Imports. The class methods also run on machines without the model or a GPU. So neither the module
nor a class method imports anything heavy: `load` imports torch.

Previews. For ``plan --prompts``, `open_preview` is called in place of `load` and `configure`, and
`preview` in place of `answer`.

Identity. A cell's identity includes the adapter's name and `version`, the digest of the model and
its kwargs. A change of any of these makes another cell. `outside` names the kwargs that change no
answer. `Model.kwargs` has all kwargs, these too.

Checks. When a campaign is read, `check` tests a model with a config, and `check_generation` tests
generation settings. They return messages for the user and raise nothing.

Failures. Every exception makes the cell fail. A `CellFailure` names its stage and kind. Otherwise
the stage is ``load`` for `__init__`, `load` and `configure`, and ``benchmark`` for `answer`.
If `keeps_errors` is True, a prompt that can never be answered, such as one that a content filter
refuses, has an `Answer` with its `error` instead, and the other prompts are answered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, cast

from benchfleet import registry
from benchfleet.domain.cell import Config, Model
from benchfleet.download import Download
from benchfleet.errors import CellFailure

from .values import Answer, LoadTarget, Loan, Prompt, PromptView, ServedModel, with_errors

__all__ = [
    "Adapter",
    "Answer",
    "LoadTarget",
    "Loan",
    "Prompt",
    "PromptView",
    "ServedModel",
    "adapter_class",
    "dense_alone",
    "with_errors",
]


class Adapter(registry.Plugin, ABC):
    """A model kept loaded between cells; see the module for the whole contract."""

    version: ClassVar[int] = 1  # raised when the same model and settings give other answers
    outside: ClassVar[tuple[str, ...]] = ()  # names of kwargs outside the identity: address, …
    keys: ClassVar[tuple[str, ...]] = ()  # kwargs that are keys of a model in the campaign, too
    opens: ClassVar[bool] = True  # False: opens no model; only for benchmarks that need none
    independent: ClassVar[bool] = False  # True: no answer depends on what is asked beside it
    batch_sensitive: ClassVar[bool] = False  # True: a batch may change the last digits of an answer
    lends: ClassVar[bool] = False  # True: `lend` works
    serves: ClassVar[bool] = False  # True: `served` works
    starts_server: ClassVar[bool] = False  # True: kwargs have the `server` that it starts
    takes_load: ClassVar[bool] = False  # True: `load_target` works
    rounds_cache: ClassVar[bool] = False  # True: it runs configs with a `kv_cache`
    measures: ClassVar[frozenset[str] | None] = None  # names in `Answer.measures`; None: unknown

    chat_options: ClassVar[frozenset[str]] = frozenset({"system"})  # that configs may set; the
    # others are `template_kwargs`, `effort` and `budget`, which `configure` reads from the config
    keeps_errors: bool = False  # set by the slot, for `limits.sample_errors`; see Failures

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def abilities(self) -> Mapping[str, bool] | None:
        """What its server can do, once loaded: usage, logprobs, prompt_logprobs, ignore_eos, done
        (a stream ends with ``[DONE]``). None if it asks no server."""
        return None

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
    def server_elsewhere(cls, kwargs: Mapping[str, Any]) -> str:
        """The server, as ``host:port``, that a model with these kwargs asks, if it runs already.
        Its cells take no device. ``""`` if the adapter uses the devices of its slot."""
        return ""

    @classmethod
    def check(cls, model: Model, config: Config) -> str | None:
        """Why this adapter cannot run the model with that config, or None if it can."""
        return None

    @classmethod
    def check_files(cls, model: Model) -> str | None:
        """What the model's folder lacks to be loaded and what to do, or None."""
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
    def lora_digest(cls, folder: str) -> str:
        """The identity of a LoRA adapter for its models. An adapter that returns one has `switch`.

        Raises ValueError, saying what to do, if there is none, or if it takes no LoRA adapters.
        """
        raise ValueError("this adapter takes no LoRA adapters; merge the weights into the model")

    @classmethod
    def revisions(cls, name: str) -> Sequence[str]:
        """The revisions of a hub's model, for a series of checkpoints. Raises ValueError."""
        raise ValueError("this adapter knows no revisions; name folders as 'checkpoints'")

    @classmethod
    def fetch(cls, model: Model) -> Path | None:
        """The folder of the model's files on this host, downloaded if needed, or None if scripts
        open `source` as it is. Called in a slot, for scripts that open the model themselves.

        Raises CellFailure if the files cannot be fetched.
        """
        return None

    @classmethod
    def downloads(cls, model: Model) -> Sequence[Download]:
        """What `fetch` downloads of that model, for ``benchfleet fetch`` and ``plan``."""
        return ()

    @abstractmethod
    def load(self) -> None:
        """Bring the model into memory."""

    def switch(self, model: Model) -> None:
        """Switch the loaded weights to the LoRA adapter of `model`, or to none. The model differs
        from the loaded one only in its LoRA adapter. Raises CellFailure."""

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

    def end_asking(self, failure: CellFailure) -> bool:
        """End the `answer_each` that is under way: send no further prompt, give the answers to
        those sent, then raise the failure. False if it cannot; then nothing changes."""
        return False

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

    def open_preview(self, config: Config) -> None:
        """Load what makes tokens of prompts, and no weights, for `preview` with that config. Called
        in place of `load` and `configure`; `lend` and `served` then work, and ask nothing. Raises
        CellFailure."""

    def preview(self, prompt: Prompt, generation: Mapping[str, Any]) -> PromptView:
        """The prompt as the model would get it. Called after `open_preview`."""
        note = f"the adapter {self.model.adapter} does not show its tokens"
        return PromptView(text=prompt.text, messages=prompt.messages, note=note)

    def count_tokens(self, text: str) -> int | None:
        """The tokens of a text, by the loaded model's tokenizer; None if it is not at hand."""
        return None

    def served(self) -> ServedModel:
        """The loaded model for a harness that speaks OpenAI's protocol. Called only if `serves`
        is True."""
        raise NotImplementedError

    def load_target(self) -> LoadTarget:
        """The loaded model's server for a load test. Called only if `takes_load` is True."""
        raise NotImplementedError


def dense_alone(config: Config, who: str) -> str | None:
    """Why an adapter without attention configs cannot run this one, or None if it is dense."""
    if any(step.name != "dense" for step in config.attention):
        return f"{who} takes no attention configs; leave this one out"
    return None


def adapter_class(name: str) -> type[Adapter]:
    """The adapter of that name, also where its packages are only in a model's own interpreter.
    Raises PluginError."""
    return cast(type[Adapter], registry.load("models", name, runs_here=False))
