"""What a cell is made of, as declared: its model, its config and its workload."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .attention_step import AttentionStep
from .canonical import canonical_json, content_digest

Kwargs = Mapping[str, Any]  # JSON values only
AUTO_BATCH = 0  # the batch size that says auto


class _Shared(ABC):
    """What many cells have in common."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What of it enters a cell's fingerprint."""

    @cached_property
    def canonical(self) -> str:
        """Its identity as canonical JSON, made once for all its cells."""
        return canonical_json(self.identity())


@dataclass(frozen=True, kw_only=True)
class Model(_Shared):
    """A model as declared: what to open, and the digest of what is inside."""

    name: str
    adapter: str  # registry name
    source: str  # a local folder or a name that the adapter understands; not part of identity
    digest: str  # of weights and tokenizer files, or the hub commit: this is the identity
    model_kwargs: Kwargs = field(default_factory=dict)
    tokenizer_kwargs: Kwargs = field(default_factory=dict)
    python: str = ""  # interpreter for its slots; "" for the runner's own
    adapter_version: int | None = None  # None: the cell is older than versions of adapters
    outside: Kwargs = field(default_factory=dict)  # model kwargs that are no part of identity
    series: str = ""  # the name of the series of checkpoints that it is one of
    step: int | None = None  # of training, in that series
    lora: str = ""  # the folder of a LoRA adapter over it; not part of identity
    lora_digest: str = ""  # of that folder: part of identity

    @property
    def kwargs(self) -> Kwargs:
        """All model kwargs, as the adapter takes them."""
        return {**self.outside, **self.model_kwargs}

    @cached_property
    def load_key(self) -> str:
        """Equal for two models exactly when one loaded copy serves both: by what is inside, since
        the machines of a fleet keep the same files in different places."""
        outside = [dict(self.outside)] if self.outside else []
        return content_digest([self._base_identity(), self.python, *outside])[:16]

    def identity(self) -> dict[str, Any]:
        lora = {"lora": self.lora_digest} if self.lora_digest else {}
        return {**self._base_identity(), **lora}

    def _base_identity(self) -> dict[str, Any]:
        """Without the LoRA adapter, which is switched on the loaded weights."""
        identity = {
            "adapter": self.adapter,
            "digest": self.digest,
            "model_kwargs": dict(self.model_kwargs),
            "tokenizer_kwargs": dict(self.tokenizer_kwargs),
        }
        version = self.adapter_version
        return identity if version is None else {**identity, "adapter_version": version}


@dataclass(frozen=True, kw_only=True)
class Config(_Shared):
    """The attention settings of a cell; no steps means dense."""

    name: str
    attention: tuple[AttentionStep, ...] = ()
    everywhere: bool = False  # True: sparse in the context's prefill too
    mode: str = "measure"  # dense beside it, for density and error; "fast": the kept keys alone
    settings: Kwargs = field(default_factory=dict)  # passed on to scripts
    chat: Kwargs | None = None  # prompts are messages: system, template_kwargs, effort
    thinking: Kwargs | None = None  # how the model marks its reasoning; see `Thinking`
    kv_cache: str = ""  # int8 or int4: keys and values are rounded to so many bits

    def identity(self) -> dict[str, Any]:
        steps = [step.identity() for step in self.attention]
        identity: dict[str, Any] = {
            "attention": steps,
            "everywhere": self.everywhere and bool(steps),
        }
        if steps and self.mode != "measure":
            identity["mode"] = self.mode
        if self.kv_cache:
            identity["kv_cache"] = self.kv_cache
        if self.chat is not None:
            identity["chat"] = dict(self.chat)
        if self.thinking is not None:
            identity["thinking"] = dict(self.thinking)
        return {**identity, "settings": dict(self.settings)} if self.settings else identity


@dataclass(frozen=True, kw_only=True)
class Workload(_Shared):
    """A benchmark's subset as declared: what is asked of the model."""

    benchmark: str  # registry name
    version: str
    subset: str | None = None  # None: the whole benchmark
    params: Kwargs = field(default_factory=dict)
    data_digest: str = ""  # of a local dataset; "" where the data follow from version and params
    generation: Kwargs = field(default_factory=dict)
    batch_size: int = 1  # AUTO_BATCH: the slot finds it out
    limit: int | None = None  # samples; None: all
    called: str = ""  # its own name, where one benchmark stands for many, such as scripts
    outside: Kwargs = field(default_factory=dict)  # parameters that are no part of identity
    samples_per_question: int = 1  # answers to each question
    judge: Kwargs = field(default_factory=dict)  # who judges its answers; no part of identity
    measures_speed: bool = False  # of the benchmark's class: hardware belongs to the identity
    split: int | None = None  # of its cells, where it is declared; no part of identity

    @property
    def name(self) -> str:
        """How people call the benchmark: by its own name where it has one."""
        return self.called or self.benchmark

    @property
    def declared_samples(self) -> int | None:
        """How many samples a cell has, by its limit or the parameter ``samples``; None where only
        the data tell."""
        samples = self.params.get("samples")
        counts = [one for one in (self.limit, samples) if isinstance(one, int) and one > 0]
        return min(counts, default=None)

    @property
    def full_name(self) -> str:
        """``<name>[_<subset>]``: it whole, however many of its samples are asked."""
        return self.name if self.subset is None else f"{self.name}_{self.subset}"

    @property
    def label(self) -> str:
        """``<name>[_<subset>][+limit<n>]``: how people and folders call it."""
        name = self.full_name
        return name if self.limit is None else f"{name}+limit{self.limit}"

    def identity(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            "version": self.version,
            "subset": self.subset,
            "params": dict(self.params),
            "data_digest": self.data_digest,
            "generation": dict(self.generation),
            "batch_size": self.batch_size,
            "limit": self.limit,
            **(
                {"samples_per_question": self.samples_per_question}
                if self.samples_per_question > 1
                else {}
            ),
        }
