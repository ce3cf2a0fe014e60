"""Generation settings and the choice of tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

from benchfleet.models.generation import Generation


def test_nothing_said_is_greedy() -> None:
    settings = Generation.parse({})
    assert settings == Generation(max_new_tokens=128, temperature=0.0)
    logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    assert settings.generators(["a", "b"], "cpu") == []
    assert settings.choose(logits, []) == [1, 0]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"max_tokens": 4}, "no generation setting 'max_tokens'; did you mean 'max_new_tokens'"),
        ({"beams": 4}, "no generation setting 'beams'; there are max_new_tokens, temperature"),
        ({"max_new_tokens": 0}, "max_new_tokens must be a whole number from 1 up, not 0"),
        ({"max_new_tokens": True}, "max_new_tokens must be a whole number"),
        ({"temperature": -1}, "temperature must be a number from 0 up, not -1"),
        ({"temperature": float("nan")}, "temperature must be a number"),
        ({"temperature": "hot"}, "temperature must be a number from 0 up, not 'hot'"),
        ({"top_p": 0}, "top_p must be above 0 and at most 1, not 0"),
        ({"top_p": 1.5}, r"top_p must be above 0 and at most 1, not 1\.5"),
        ({"top_k": -1}, "top_k must be a whole number from 0 up"),
        ({"seed": "x"}, "seed must be a whole number from 0 up"),
        ({"stop": 4}, "stop must be a list of texts, none of them empty, not 4"),
        ({"stop": [""]}, "stop must be a list of texts, none of them empty"),
    ],
)
def test_a_wrong_setting_says_what_to_do(given: Mapping[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        Generation.parse(given)


def test_every_wrong_setting_is_reported_by_its_name() -> None:
    assert Generation.problems({"max_new_token": 5, "top_k": -1, "temperature": 0}) == {
        "max_new_token": "no generation setting 'max_new_token'; did you mean 'max_new_tokens'?",
        "top_k": "top_k must be a whole number from 0 up, not -1",
    }


@pytest.mark.parametrize(
    ("stop", "kept"), [("\n", ("\n",)), (["a", "b"], ("a", "b")), (None, ()), ([], ())]
)
def test_stops_are_a_text_or_a_list(stop: str | Sequence[str] | None, kept: Sequence[str]) -> None:
    assert Generation.parse({"stop": stop}).stop == kept


def test_an_answer_ends_before_the_first_stop() -> None:
    settings = Generation(stop=("\n\n", "Q:"))
    assert settings.cut("yes\nQ: no\n\nand") == "yes\n"
    assert settings.cut("yes") == "yes"
    assert Generation().cut("a\n\nb") == "a\n\nb"


def drawn(settings: Generation, texts: list[str], times: int = 2000) -> list[Counter[int]]:
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]]).expand(len(texts), -1)
    generators = settings.generators(texts, "cpu")
    rounds = [settings.choose(logits, generators) for _ in range(times)]
    return [Counter(column) for column in zip(*rounds, strict=True)]


def test_sampling_follows_the_softmax_at_its_temperature() -> None:
    (counts,) = drawn(Generation(temperature=0.5), ["a"])
    expected = (torch.tensor([2.0, 1.0, 0.0, -1.0]) / 0.5).softmax(0)
    for token, chance in enumerate(expected.tolist()):
        assert counts[token] / 2000 == pytest.approx(chance, abs=0.04)


def test_top_k_leaves_the_best_tokens() -> None:
    (counts,) = drawn(Generation(temperature=5, top_k=2), ["a"])
    assert sorted(counts) == [0, 1]


@pytest.mark.parametrize(("top_p", "left"), [(0.01, [0]), (0.7, [0, 1]), (0.95, [0, 1, 2])])
def test_top_p_leaves_the_fewest_tokens_that_reach_it(top_p: float, left: Sequence[int]) -> None:
    (counts,) = drawn(Generation(temperature=1, top_p=top_p), ["a"])
    assert sorted(counts) == left


def test_each_prompt_has_its_own_randomness_in_any_batch() -> None:
    settings = Generation(temperature=1)
    together = drawn(settings, ["a", "b"], times=50)
    assert together == drawn(settings, ["a"], times=50) + drawn(settings, ["b"], times=50)
    assert together[0] != together[1]
    assert drawn(Generation(temperature=1, seed=1), ["a"], times=50) != together[:1]
