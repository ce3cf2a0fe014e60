"""Attention configs in a row: from what a campaign names to the keys that are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from benchfleet import registry
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Config
from benchfleet.errors import PluginError
from benchfleet.models.attention.base import AttentionConfig
from benchfleet.models.attention.selection import Picks
from benchfleet.models.attention.state import State
from benchfleet.models.attention.view import View

if TYPE_CHECKING:
    from torch import Tensor


def is_sparse(config: Config) -> bool:
    """Whether any of its steps is sparse."""
    return any(step.name != "dense" for step in config.attention)


def check_steps(steps: Sequence[AttentionStep], *, fast: bool = False) -> str | None:
    """What is wrong with a composition and what to do about it, or None; `fast` for that mode."""
    try:
        configs = build_steps(steps)
    except (PluginError, ValueError) as error:
        return str(error)
    names = [step.name for step in steps]
    if "dense" in names and len(names) > 1:
        return "dense keeps every key, so it stands alone; remove it or the others"
    samplers = [name for name, config in zip(names, configs, strict=True) if config.samples]
    if len(samplers) > 1:
        return f"{' and '.join(samplers)} both draw keys at random; leave only one of them"
    if fast:
        return _not_fast(dict(zip(names, configs, strict=True)))
    return None


def _not_fast(configs: Mapping[str, AttentionConfig]) -> str | None:
    slow = [name for name, config in configs.items() if not config.has_fast_form]
    if slow:
        return f"{slow[0]} has no fast form; use mode: measure"
    picking = [name for name, config in configs.items() if config.span(1) is None]
    if len(picking) > 1 or (picking and picking[0] != list(configs)[-1]):
        return f"mode: fast takes one step such as {picking[0]}, and takes it last"
    return None


def build_steps(steps: Sequence[AttentionStep]) -> tuple[AttentionConfig, ...]:
    """The configs by name, in order. Raises PluginError or ValueError."""
    built: list[AttentionConfig] = []
    for step in steps:
        try:
            built.append(registry.load("attention", step.name).parse(step.params))
        except ValueError as error:
            raise ValueError(f"{step.name}: {error}") from None
    return tuple(built)


@dataclass(frozen=True, kw_only=True)
class KeptKeys:
    """What steps keep together."""

    selected: Tensor  # bool [batch, 1 or heads, queries, keys]
    weight: Tensor | None  # float32 [batch, heads, queries, keys], 0 where not kept; None: 1 each


def kept_keys(
    steps: Sequence[AttentionConfig], view: View, states: Mapping[int, State] = MappingProxyType({})
) -> KeptKeys:
    """What the steps keep; `states` has the state of a step by its number.

    A query that sees some key keeps at least its own; one that sees none (padding) keeps none. A
    key keeps the weight that the first step to keep it gave.
    """
    import torch

    heads, keys = view.query.shape[1], view.key.shape[2]
    weight: Tensor | None = None
    for number, step in enumerate(steps):
        view = replace(view, state=states.get(number))
        answer = step.keep(view)
        if isinstance(answer, Picks):
            weighted = answer.weight is not None
            answer = answer.spread(heads, keys)
            answer = answer if weighted else answer > 0
        try:
            added = (answer if answer.dtype == torch.bool else answer > 0) & view.open
        except RuntimeError:
            raise ValueError(
                f"{type(step).__name__}.keep gave the shape {list(answer.shape)}; give [batch, 1 or"
                f" heads, queries, keys], here {list(view.open.shape)}"
            ) from None
        if answer.dtype != torch.bool:
            answer = torch.where(added, answer.float(), 0.0)
        if weight is not None or answer.dtype != torch.bool:
            earlier = view.selected.float() if weight is None else weight
            weight = torch.where(added, answer.float(), earlier)
        view = replace(view, selected=view.selected | added)
    own = view.visible & (view.rank == view.seen)
    alone = own & ~view.selected.any(-1, keepdim=True)
    if weight is not None:
        weight = torch.where(alone, 1.0, weight)
    return KeptKeys(selected=view.selected | alone, weight=weight)
