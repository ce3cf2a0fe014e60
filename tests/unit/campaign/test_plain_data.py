from __future__ import annotations

import enum
import math
from collections import OrderedDict
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from benchfleet.campaign.plain_data import to_plain_data
from benchfleet.campaign.source import KeyPath, TooMuch
from benchfleet.models.attention.local import Local
from benchfleet.models.attention.sink_local import SinkLocal, Streaming


class Level(str, enum.Enum):
    EASY = "easy"


class Size(enum.IntEnum):
    SMALL = 3


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (0.5, 0.5),
        ("text", "text"),
        ((1, [2]), [1, [2]]),
        (range(2), [0, 1]),
        (OrderedDict(a=1), {"a": 1}),
        (Path("a/b"), "a/b"),
        (Level.EASY, "easy"),
        (Size.SMALL, 3),
        ({Level.EASY: 1}, {"easy": 1}),
        (Fraction(1, 4), 0.25),
        (Local(window_size=8), {"local": {"window_size": 8}}),
        (Streaming(window_size=0.5), {"streaming": {"sink_size": 4, "window_size": 0.5}}),
        (SinkLocal(window_size=2), {"sink_local": {"sink_size": 4, "window_size": 2}}),
    ],
)
def test_what_has_a_plain_form_is_taken_in_it(value: Any, expected: Any) -> None:
    found, flaws = to_plain_data(value)
    assert (found, type(found)) == (expected, type(expected))
    assert flaws == []


def test_dtypes_and_devices_of_torch_are_taken_by_name() -> None:
    torch = pytest.importorskip("torch")
    given = {"dtype": torch.bfloat16, "device_map": torch.device("cuda:1")}
    assert to_plain_data(given) == ({"dtype": "bfloat16", "device_map": "cuda:1"}, [])


class Mine:
    """An object of somebody's own."""


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ({"a": [Mine()]}, ("a", 0), "is of type Mine, no plain data"),
        ({"a": Mine}, ("a",), "is of type type, no plain data"),
        ({"a": {1, 2}}, ("a",), "a set has no order; write a list"),
        ({"a": date(2024, 1, 1)}, ("a",), "2024-01-01 is a date or a time"),
        ({"a": math.nan}, ("a",), "is infinite, no number"),
        ({"a": -math.inf}, ("a",), "is infinite, no number"),
        ({"a": 10**5000}, ("a",), "is infinite, no number"),
        ({"a": "\ud800"}, ("a",), "'\\ud800' is not text that results can store"),
        ({"a": {5: 1}}, ("a",), "a key must be text, not 5"),
    ],
)
def test_what_has_none_is_a_flaw_at_its_path(value: Any, path: KeyPath, message: str) -> None:
    _, (flaw,) = to_plain_data(value)
    assert flaw.path == path
    assert flaw.message.startswith(message)


def test_what_holds_itself_is_too_much() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TooMuch, match="nested more than"):
        to_plain_data(endless)


@pytest.mark.slow
def test_few_lists_that_unfold_to_billions_are_too_much() -> None:
    value: list[Any] = []
    for _ in range(30):
        value = [value, value]
    with pytest.raises(TooMuch, match="unfolds to more than"):
        to_plain_data(value)
