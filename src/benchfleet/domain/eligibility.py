"""What a machine may be given: rules over what it has, and the tiers that machines fall into.

Every rule is held against a machine by itself, so that a strong machine that satisfies a weak rule
satisfies the strong ones too. Of the tiers the first that holds is the machine's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .conditions import Condition, Facts, Kind, parse_condition
from .name_patterns import matches

PROBED = "probed"  # the event that keeps a report in a ledger; data: report

FACTS: Mapping[str, tuple[Kind, str]] = {
    "ram_total": ("size", "memory of the machine"),
    "ram_available": ("size", "memory that it can still give"),
    "disk_total": ("size", "of the disk that results go to"),
    "disk_free": ("size", "what is free there"),
    "cores": ("count", "cores that a process may use"),
    "gpus": ("count", "GPUs that are well"),
    "vram": ("size", "memory of the largest GPU; 0 where there is none"),
    "vram_free": ("size", "what is free on the GPU that has most"),
    "vram_total": ("size", "memory of all GPUs"),
    "gflops": ("number", "10⁹ operations a second of a matrix product on the CPU; 0: not measured"),
    "gpu_gflops": ("number", "the same on a GPU"),
    "memory_bandwidth": ("size", "bytes that the CPU copies in a second"),
    "disk_write": ("size", "bytes written and synced in a second"),
    "disk_read": ("size", "bytes read in a second"),
    "network": ("size", "bytes a second of its fastest link"),
    "torch": ("truth", "torch is installed, as the next"),
    "transformers": ("truth", ""),
    "vllm": ("truth", ""),
    "llama_cpp": ("truth", ""),
    "ollama": ("truth", "an Ollama server answers"),
    "hostname": ("text", ""),
    "system": ("text", "such as 'Linux'"),
    "machine": ("text", "such as 'x86_64' or 'aarch64'"),
}
KINDS: Mapping[str, Kind] = {name: kind for name, (kind, _) in FACTS.items()}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a machine must have for the cells that the rule is about."""

    name: str
    when: Condition
    phases: tuple[str, ...] = ()  # patterns of those that it is about; (): all, as models
    models: tuple[str, ...] = ()
    variants: bool | None = None  # True: cells run with a variant alone; False: with none

    @property
    def governs(self) -> bool:
        """Whether it is about cells at all, and not only about what a machine is called."""
        return bool(self.phases or self.models or self.variants is not None)

    def about(self, *, phase: str, model: str, variant: bool) -> bool:
        """Whether such a cell may run only where some rule like this one holds."""
        return (
            self.governs
            and matches(self.phases, phase)
            and matches(self.models, model)
            and self.variants in (None, variant)
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        globs = {"phases": list(self.phases), "models": list(self.models)}
        return {"name": self.name, "when": self.when.text, **globs, "variants": self.variants}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Rule:
        """What `to_dict` made. Raises ValueError for a condition of a newer benchfleet."""
        return cls(
            name=data["name"],
            when=parse_condition(data["when"], KINDS),
            phases=tuple(data["phases"]),
            models=tuple(data["models"]),
            variants=data["variants"],
        )


@dataclass(frozen=True, kw_only=True)
class Tier:
    """A class of machines."""

    tier: int
    when: Condition
    role: str = ""


@dataclass(frozen=True, kw_only=True)
class EligibilityResult:
    """A machine held against the rules."""

    holds: Mapping[str, bool]  # by rule
    why_not: Mapping[str, str]  # for each rule that does not hold
    tier: int  # 0 where none holds
    role: str


@dataclass(frozen=True, kw_only=True)
class Eligibility:
    """The rules and tiers of a campaign."""

    rules: tuple[Rule, ...]
    tiers: tuple[Tier, ...]

    def judge(self, facts: Facts) -> EligibilityResult:
        """What of it holds for a machine with these facts."""
        holds = {rule.name: rule.when.holds(facts) for rule in self.rules}
        tier = next((one for one in self.tiers if one.when.holds(facts)), None)
        return EligibilityResult(
            holds=holds,
            why_not={
                rule.name: "; ".join(rule.when.unmet(facts))
                for rule in self.rules
                if not holds[rule.name]
            },
            tier=tier.tier if tier else 0,
            role=tier.role if tier else NO_ROLE,
        )

    def concerns(self, *, phase: str, model: str, variant: bool) -> bool:
        """Whether such a cell may be kept off some machine."""
        return any(r.about(phase=phase, model=model, variant=variant) for r in self.rules)

    def barred(self, facts: Facts, *, phase: str, model: str, variant: bool) -> str:
        """Why such a cell may not run on a machine with these facts; ``""`` where it may."""
        rules = [r for r in self.rules if r.about(phase=phase, model=model, variant=variant)]
        if not rules or any(rule.when.holds(facts) for rule in rules):
            return ""
        return "; ".join(f"{rule.name}: {', '.join(rule.when.unmet(facts))}" for rule in rules)


NO_ROLE = "none; too small for every tier"


def default_eligibility() -> Eligibility:
    """The thresholds and tiers of campaigns that state none: of available memory and free disk."""
    thresholds = {
        "prerequisites": (3, 5),
        "e0_e1": (5, 10),
        "e2_quantized": (6, 10),
        "e2_full": (12, 15),
    }
    phases = {"prerequisites": ("prerequisites",), "e0_e1": ("e0", "e1")}
    rules = {
        name: Rule(
            name=name,
            when=parse_condition(f"ram_available >= {ram}GB and disk_free >= {disk}GB", KINDS),
            phases=phases.get(name, ("e2",)),
            variants={"e2_quantized": True, "e2_full": False}.get(name),
        )
        for name, (ram, disk) in thresholds.items()
    }
    roles = {
        3: ("e2_full", "fine-tuning and final evaluation"),
        2: ("e0_e1", "parameter search and retrieval; quantised models"),
        1: ("prerequisites", "prerequisites and embeddings"),
    }
    named = {name: rule.when for name, rule in rules.items()}
    tiers = tuple(
        Tier(tier=tier, when=parse_condition(when, KINDS, named), role=role)
        for tier, (when, role) in roles.items()
    )
    return Eligibility(rules=tuple(rules.values()), tiers=tiers)
