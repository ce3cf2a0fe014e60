"""Attention configs in a row: from what a campaign names to the keys that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from benchfleet import registry
from benchfleet.domain.cell import AttentionStep
from benchfleet.errors import PluginError
from benchfleet.models.attention.base import AttentionConfig, View

if TYPE_CHECKING:
    from torch import Tensor


def check_steps(steps: Sequence[AttentionStep]) -> str | None:
    """What is wrong with a composition and what to do about it, or None."""
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


def selected_keys(steps: Sequence[AttentionConfig], view: View) -> Tensor:
    """What the steps keep together: bool, [batch, 1 or heads, queries, keys].

    A query that sees some key keeps at least its own; one that sees none (padding) keeps none.
    """
    for step in steps:
        view = replace(view, selected=view.selected | (step.keep(view) & view.visible))
    own = view.visible & (view.rank == view.seen)
    return view.selected | (own & ~view.selected.any(-1, keepdim=True))
