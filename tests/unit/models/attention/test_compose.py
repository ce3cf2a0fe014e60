"""Putting attention configs in a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from benchfleet import registry
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.models.attention.base import AttentionConfig
from benchfleet.models.attention.compose import build_steps, check_steps, kept_keys
from benchfleet.models.attention.local import Local
from benchfleet.models.attention.sink import Sink
from benchfleet.models.attention.view import View

from .conftest import Scene


def steps(*named: tuple[str, Mapping[str, Any]]) -> list[AttentionStep]:
    return [AttentionStep(name=name, params=params) for name, params in named]


@dataclass(frozen=True, kw_only=True)
class Drawn(AttentionConfig):
    """Stands for a sampler: it keeps nothing."""

    samples = True
    rate: float = 0.5

    def keep(self, view: View) -> torch.Tensor:
        return torch.zeros_like(view.visible)


@dataclass(frozen=True, kw_only=True)
class Greedy(AttentionConfig):
    """Says that it keeps everything, the invisible too."""

    def keep(self, view: View) -> torch.Tensor:
        return torch.ones_like(view.visible)


def test_right_compositions_have_nothing_wrong() -> None:
    assert check_steps([]) is None
    assert check_steps(steps(("dense", {}))) is None
    assert check_steps(steps(("sink", {"sink_size": 4}), ("local", {"window_size": 0.5}))) is None


@pytest.mark.parametrize(
    ("named", "wrong"),
    [
        ([("sinks", {})], "no attention config 'sinks'; did you mean 'sink'"),
        ([("sink", {"sink_size": -1})], "sink: sink_size may not be negative"),
        ([("sink", {})], "sink: sink_size is missing"),
        ([("dense", {}), ("sink", {"sink_size": 4})], "dense keeps every key, so it stands alone"),
        ([("dense", {}), ("dense", {})], "it stands alone"),
    ],
)
def test_a_wrong_composition_says_what_to_do(
    named: Sequence[tuple[str, dict[str, int]]], wrong: str
) -> None:
    assert wrong in (check_steps(steps(*named)) or "")


def test_two_samplers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, type] = {"drawn": Drawn, "local": Local}
    monkeypatch.setattr(registry, "load", lambda family, name: found[name])
    assert check_steps(steps(("drawn", {}), ("local", {"window_size": 4}))) is None
    assert check_steps(steps(("drawn", {}), ("drawn", {}))) == (
        "drawn and drawn both draw keys at random; leave only one of them"
    )


def test_steps_are_built_in_their_order() -> None:
    built = build_steps(steps(("local", {"window_size": 2}), ("sink", {"sink_size": 1})))
    assert built == (Local(window_size=2), Sink(sink_size=1))


def test_a_wrong_shape_is_refused_with_the_name_of_the_config(
    scene: Callable[..., Scene],
) -> None:
    class Short(Greedy):
        def keep(self, view: View) -> torch.Tensor:
            return torch.ones(1, 1, 1, 3, dtype=torch.bool)

    given = scene("..kkk.qq", "kkkkk.qq", queries=3)
    with pytest.raises(ValueError, match=r"Short.keep gave the shape \[1, 1, 1, 3\]"):
        kept_keys([Short()], given.view)


def test_what_is_not_visible_is_never_kept(scene: Callable[..., Scene]) -> None:
    given = scene("..kkk.qq", "kkkkk.qq", queries=3)
    assert torch.equal(kept_keys([Greedy()], given.view).selected, given.visible)
