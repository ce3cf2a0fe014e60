"""One point of the matrix, and the identity that its content gives it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NewType

from .attention_step import AttentionStep
from .axes import AUTO_BATCH, Config, Kwargs, Model, Workload
from .canonical import canonical_json, content_digest
from .hardware import Hardware
from .limits import Limits
from .names import path_part
from .part import Part
from .resource import Need

__all__ = [
    "AUTO_BATCH",
    "AttentionStep",
    "Cell",
    "CellId",
    "Config",
    "Fingerprint",
    "Kwargs",
    "Model",
    "Workload",
    "field_values",
]

CellId = NewType("CellId", str)  # readable and path-safe, such as tiny/dense/recall_512/r0
Fingerprint = NewType("Fingerprint", str)  # SHA-256 of what was declared, in hexadecimal


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
    split: int = 1  # into so many parts; AUTO_SPLIT: as many as pay; no part of its identity
    part: Part | None = None  # of a cell that was split: the range of samples that this one is

    @property
    def hardware(self) -> tuple[Hardware, ...]:
        return self.need.hardware

    @property
    def measured_on(self) -> Hardware | None:
        """The hardware whose speed it measures, as part of its identity."""
        return self.hardware[0] if self.hardware and self.workload.measures_speed else None

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The SHA-256 of what was declared; never of a path or of a result."""
        # The canonical JSON of `identity`, put together from that of its parts.
        hardware = self.measured_on
        measured_on = f'"hardware":{canonical_json(hardware.identity())},' if hardware else ""
        part = f'"part":{canonical_json(self.part.identity())},' if self.part else ""
        text = (
            f'{{"config":{self.config.canonical},{measured_on}"model":{self.model.canonical},'
            f'{part}"repeat":{self.repeat},"workload":{self.workload.canonical}}}'
        )
        return Fingerprint(hashlib.sha256(text.encode()).hexdigest())

    def identity(self) -> dict[str, Any]:
        hardware = self.measured_on
        return {
            "model": self.model.identity(),
            "config": self.config.identity(),
            "workload": self.workload.identity(),
            "repeat": self.repeat,
            **({"hardware": hardware.identity()} if hardware else {}),
            **({"part": self.part.identity()} if self.part else {}),
        }

    @cached_property
    def answers_key(self) -> str:
        """Equal for cells that ask the same requests: whatever their limit, the answers to each
        question, and the tags of reasoning."""
        identity = self.identity()
        workload = {**identity["workload"], "limit": None, "samples_per_question": 1}
        thinking = identity["config"].pop("thinking", None) or {}
        return content_digest({**identity, "workload": workload, "budget": thinking.get("budget")})

    @property
    def label(self) -> str:
        """``<benchmark>[_<subset>][+limit<n>][+<hardware>]``: how people call what it measures."""
        hardware, part = self.measured_on, self.part
        more = (hardware.name if hardware else "", part.label if part else "")
        return "+".join((self.workload.label, *filter(None, more)))

    @cached_property
    def id(self) -> CellId:
        """``<model>/<config>/<label>[/r<repeat>]``, path-safe."""
        return CellId("/".join(self.path_parts))

    @property
    def path_parts(self) -> tuple[str, ...]:
        names = (self.model.name, self.config.name, self.label)
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
            "model": {**_without_defaults(model), "model_kwargs": dict(model.model_kwargs)},
            "config": {
                **field_values(config),
                "attention": [step.to_list() for step in config.attention],
            },
            "workload": field_values(work),
            "repeat": self.repeat,
            "repeats": self.repeats,
            "need": {n: v for n, v in field_values(self.need).items() if n != "hardware"},
            "limits": field_values(self.limits),
            "priority": self.priority,
            **({"phase": self.phase} if self.phase else {}),
            **({"hardware": [vars(one) for one in self.hardware]} if self.hardware else {}),
            **({"split": self.split} if self.split != 1 else {}),
            **({"part": self.part.identity()} if self.part else {}),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Cell:
        steps = tuple(map(AttentionStep.from_list, value["config"]["attention"]))
        hardware = tuple(Hardware(**one) for one in value.get("hardware", ()))
        model = Model(**value["model"])
        return cls(
            model=model,
            config=Config(**{**value["config"], "attention": steps}),
            workload=Workload(**value["workload"]),
            repeat=value["repeat"],
            repeats=value["repeats"],
            need=Need.of(value["need"], hardware, model.kwargs),
            limits=Limits(**value["limits"]),
            priority=value["priority"],
            phase=value.get("phase", ""),
            split=value.get("split", 1),
            part=Part(**value["part"]) if value.get("part") else None,
        )


_SELDOM = {"series": "", "step": None, "lora": "", "lora_digest": ""}  # fields of few models


def _without_defaults(model: Model) -> dict[str, Any]:
    """The declared fields, without those that few models have."""
    values = field_values(model)
    return {k: v for k, v in values.items() if k not in _SELDOM or v != _SELDOM[k]}


def field_values(value: Any) -> dict[str, Any]:
    """The declared fields of a frozen dataclass, without what was cached on it."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
