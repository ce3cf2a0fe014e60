"""One point of the matrix, and the identity that its content gives it."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NewType

from .canonical import canonical_json, content_digest
from .names import path_part
from .resource import Need

CellId = NewType("CellId", str)  # readable and path-safe, such as tiny/dense/recall_512/r0
Fingerprint = NewType("Fingerprint", str)  # SHA-256 of what was declared, in hexadecimal

Kwargs = Mapping[str, Any]  # JSON values only


class _Part(ABC):
    """A part of cells, which many of them share."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What of it enters a cell's fingerprint."""

    @cached_property
    def canonical(self) -> str:
        """Its identity as canonical JSON, made once for all its cells."""
        return canonical_json(self.identity())


@dataclass(frozen=True, kw_only=True)
class Model(_Part):
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

    @property
    def kwargs(self) -> Kwargs:
        """All model kwargs, as the adapter takes them."""
        return {**self.outside, **self.model_kwargs}

    @cached_property
    def load_key(self) -> str:
        """Equal for two models exactly when one loaded copy serves both: by what is inside, since
        the machines of a fleet keep the same files in different places."""
        outside = [dict(self.outside)] if self.outside else []
        return content_digest([self.identity(), self.python, *outside])[:16]

    def identity(self) -> dict[str, Any]:
        identity = {
            "adapter": self.adapter,
            "digest": self.digest,
            "model_kwargs": dict(self.model_kwargs),
            "tokenizer_kwargs": dict(self.tokenizer_kwargs),
        }
        version = self.adapter_version
        return identity if version is None else {**identity, "adapter_version": version}


@dataclass(frozen=True, kw_only=True)
class AttentionStep:
    """One attention config in an ordered composition: its registry name and parameters."""

    name: str
    params: Kwargs = field(default_factory=dict)
    version: int | None = None  # None: the cell is older than versions of attention configs
    digests: Mapping[str, str] = field(default_factory=dict)  # of files, by the parameter's name

    def identity(self) -> list[Any]:
        """Name, parameters, with the content of a file in place of its path, and version."""
        return [self.name, {**self.params, **self.digests}, *self._versions()]

    def to_list(self) -> list[Any]:
        """What `from_list` reads: name, parameters, version and digests where there are some."""
        digests = [dict(self.digests)] if self.digests else []
        return [self.name, dict(self.params), *self._versions(), *digests]

    def _versions(self) -> list[int]:
        return [] if self.version is None else [self.version]

    @classmethod
    def from_list(cls, value: Sequence[Any]) -> AttentionStep:
        name, params, *others = value
        versions = [other for other in others if isinstance(other, int)]
        digests = [other for other in others if isinstance(other, Mapping)]
        return cls(
            name=name,
            params=params,
            version=versions[0] if versions else None,
            digests=digests[0] if digests else {},
        )


@dataclass(frozen=True, kw_only=True)
class Config(_Part):
    """The attention settings of a cell; no steps means dense."""

    name: str
    attention: tuple[AttentionStep, ...] = ()
    everywhere: bool = False  # True: sparse in the context's prefill too
    mode: str = "measure"  # dense beside it, for density and error; "fast": the kept keys alone
    settings: Kwargs = field(default_factory=dict)  # passed on to scripts
    kv_cache: str = ""  # int8 or int4: keys and values are rounded to so many bits

    def identity(self) -> dict[str, Any]:
        steps = [step.identity() for step in self.attention]
        identity = {"attention": steps, "everywhere": self.everywhere and bool(steps)}
        if steps and self.mode != "measure":
            identity["mode"] = self.mode
        if self.kv_cache:
            identity["kv_cache"] = self.kv_cache
        return {**identity, "settings": dict(self.settings)} if self.settings else identity


@dataclass(frozen=True, kw_only=True)
class Workload(_Part):
    """A benchmark's subset as declared: what is asked of the model."""

    benchmark: str  # registry name
    version: str
    subset: str | None = None  # None: the whole benchmark
    params: Kwargs = field(default_factory=dict)
    data_digest: str = ""  # of a local dataset; "" where the data follow from version and params
    generation: Kwargs = field(default_factory=dict)
    batch_size: int = 1
    limit: int | None = None  # samples; None: all
    called: str = ""  # its own name, where one benchmark stands for many, such as scripts
    outside: Kwargs = field(default_factory=dict)  # parameters that are no part of identity

    @property
    def name(self) -> str:
        """How people call the benchmark: by its own name where it has one."""
        return self.called or self.benchmark

    @property
    def label(self) -> str:
        """``<name>[_<subset>][+limit<n>]``: how people and folders call it."""
        name = self.name if self.subset is None else f"{self.name}_{self.subset}"
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
        }


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a cell may take, and how often it may be tried; not part of its identity."""

    cell: float | None = None  # seconds
    tries: int = 3
    generation: float | None = None  # seconds of one call of the model, whole batches too
    stuck: float | None = None  # seconds in which nothing comes; None: by what is usual
    ram: int | None = None  # bytes that its slot and all that it started may hold
    disk: int | None = None  # bytes to be left free where the results lie, or nothing is begun


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """model × config × benchmark × subset × repeat; equal to another by content alone."""

    model: Model
    config: Config
    workload: Workload
    repeat: int = 0
    repeats: bool = False  # the campaign repeats, so the path names the repeat
    need: Need = field(default_factory=Need)
    limits: Limits = field(default_factory=Limits)
    priority: int = 0  # larger goes first
    phase: str = ""  # of the campaign; no part of its identity

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The SHA-256 of what was declared; never of a path or of a result."""
        # The canonical JSON of `identity`, put together from that of its parts.
        text = (
            f'{{"config":{self.config.canonical},"model":{self.model.canonical},'
            f'"repeat":{self.repeat},"workload":{self.workload.canonical}}}'
        )
        return Fingerprint(hashlib.sha256(text.encode()).hexdigest())

    def identity(self) -> dict[str, Any]:
        return {
            "model": self.model.identity(),
            "config": self.config.identity(),
            "workload": self.workload.identity(),
            "repeat": self.repeat,
        }

    @cached_property
    def id(self) -> CellId:
        """``<model>/<config>/<benchmark>[_<subset>][+limit<n>][/r<repeat>]``, path-safe."""
        return CellId("/".join(self.path_parts))

    @property
    def path_parts(self) -> tuple[str, ...]:
        names = (self.model.name, self.config.name, self.workload.label)
        parts = tuple(path_part(name) for name in names)
        return (*parts, f"r{self.repeat}") if self.repeats else parts

    def path(self, *, marked: bool) -> str:
        """The folder of its results; `marked` with the fingerprint where the plain one is held."""
        model, config, name, *repeat = self.path_parts
        if marked:
            name += f"@{self.fingerprint[:8]}"
        return "/".join((model, config, name, *repeat))

    @cached_property
    def data_seed(self) -> int:
        """Of benchmark, subset and repeat alone: every config sees the same samples."""
        work = self.workload
        text = canonical_json([work.benchmark, work.subset, self.repeat])
        return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def to_dict(self) -> dict[str, Any]:
        """JSON values only; `from_dict` gives the same cell back."""
        model, config, work = self.model, self.config, self.workload
        return {
            "model": {**field_values(model), "model_kwargs": dict(model.model_kwargs)},
            "config": {
                **field_values(config),
                "attention": [step.to_list() for step in config.attention],
            },
            "workload": field_values(work),
            "repeat": self.repeat,
            "repeats": self.repeats,
            "need": field_values(self.need),
            "limits": field_values(self.limits),
            "priority": self.priority,
            **({"phase": self.phase} if self.phase else {}),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Cell:
        steps = tuple(map(AttentionStep.from_list, value["config"]["attention"]))
        return cls(
            model=Model(**value["model"]),
            config=Config(**{**value["config"], "attention": steps}),
            workload=Workload(**value["workload"]),
            repeat=value["repeat"],
            repeats=value["repeats"],
            need=Need(**value["need"]),
            limits=Limits(**value["limits"]),
            priority=value["priority"],
            phase=value.get("phase", ""),
        )


def field_values(value: Any) -> dict[str, Any]:
    """The declared fields of a frozen dataclass, without what was cached on it."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
