from __future__ import annotations

import json
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchfleet.campaign.source import MAX_DEPTH, KeyPath, Source
from benchfleet.campaign.toml_reader import read_toml

from .reading import flaws


def _paths(value: Any, path: KeyPath = ()) -> dict[KeyPath, Any]:
    """Every value inside, by its path."""
    found = {path: value}
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            found |= _paths(item, (*path, key))
    return found


def test_every_table_key_and_item_has_the_line_it_stands_on() -> None:
    text = dedent(
        '''\
        campaign = "study"  # a name = not a key
        [matrix]
        models = [
          "one",  # ] no end
          {name = "two", needs = {vram = "22GB"}},
        ]
        [matrix.configs.dense]
        [[matrix.include]]
        configs = "a"
        [[matrix.include]]
        "repeats" = 3
        [defaults]
        limits.cell = "6h"
        note = """
        x = 1
        """
        last.'a.b' = 1.5
        '''
    )
    source = read_toml(text)
    lines = {
        ("campaign",): 1,
        ("matrix",): 2,
        ("matrix", "models"): 3,
        ("matrix", "models", 0): 4,
        ("matrix", "models", 1): 5,
        ("matrix", "models", 1, "needs", "vram"): 5,
        ("matrix", "configs", "dense"): 7,
        ("matrix", "include", 0, "configs"): 9,
        ("matrix", "include", 1): 10,
        ("matrix", "include", 1, "repeats"): 11,
        ("defaults", "limits", "cell"): 13,
        ("defaults", "note"): 14,
        ("defaults", "last", "a.b"): 17,
    }
    assert {path: source.lines[path] for path in lines} == lines
    assert source.lines.keys() == _paths(source.data).keys()
    assert source.flaws == ()


def test_a_file_from_windows_has_the_same_lines() -> None:
    text = 'a = """\nx\n"""\n\n[b]\nc = [1,\n2]\n'
    assert read_toml(text.replace("\n", "\r\n")).lines == read_toml(text).lines


_KEYS = st.text(max_size=5).filter(lambda key: "\0" not in key)
_SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12).filter(lambda text: "\0" not in text),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3)),
    max_leaves=12,
)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(value: Any, style: int) -> str:
    """The value inline, with line ends and comments where TOML allows them."""
    if isinstance(value, dict):
        pairs = (f"{_quoted(key)} = {_toml(item, style)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        gap = ["", "\n", " # [x] = {\n"][style % 3]
        return "[" + "".join(f"{gap}{_toml(item, style // 3)}{gap}," for item in value) + gap + "]"
    if isinstance(value, str):
        if style % 2 and "'" not in value and value.isprintable():
            return f"'''{value}'''"
        return _quoted(value)
    if isinstance(value, float):
        return repr(value) if any(c in repr(value) for c in ".e") else f"{value}.0"
    return json.dumps(value)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(_KEYS, _VALUES, max_size=4), st.integers(0, 80), st.booleans())
def test_whatever_toml_takes_is_read_with_a_line_for_each_value(
    tables: dict[str, Any], style: int, as_tables: bool
) -> None:
    lines: list[str] = []
    if as_tables:
        tables = {key: {"k": value} for key, value in tables.items()}
    for key, value in tables.items():
        if as_tables:
            lines += [f"[ {_quoted(key)} ]", f"k = {_toml(value['k'], style)}"]
        else:
            lines += [f"{_quoted(key)} = {_toml(value, style)}"]
    source = read_toml("\n".join(lines))
    assert source.data == tables
    assert source.lines.keys() == _paths(tables).keys()


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        ("a: 1", "is not TOML: expected '=' after a key", 1),
        ("a = 1\nb = [1, 2\n", "is not TOML: ", 2),
        ("a = 1\na = 2", "is not TOML: what begins here stands above already; remove one", 2),
        ("[a]\n[b]\n[a]", "is not TOML: what begins here stands above already; remove one", 3),
        ("a = no", "is not TOML: no value stands here; text wants quotes", 1),
        ("a = null", "is not TOML: no value stands here; text wants quotes", 1),
        ("\x00", "is not TOML", 1),
    ],
)
def test_what_is_not_toml_is_one_flaw_with_its_line(text: str, problem: str, line: int) -> None:
    ((message, found),) = flaws(read_toml(text))
    assert message.startswith(problem)
    assert found == line


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("2024-01-01", "2024-01-01 is a date or a time, not text; put it in quotes"),
        ("07:32:00", "07:32:00 is a date or a time, not text; put it in quotes"),
        ("inf", "is infinite, no number, or beyond 10**30; results cannot keep it"),
        ("nan", "is infinite, no number, or beyond 10**30; results cannot keep it"),
        ("1" * 40, "is infinite, no number, or beyond 10**30; results cannot keep it"),
        ('"\\u0000"', "'\\x00' is not text that results can store"),
    ],
)
def test_what_results_cannot_keep_is_a_flaw_at_its_line(value: str, message: str) -> None:
    source = read_toml(f"\n[a]\nb = {value}")
    assert source.data == {"a": {"b": None}}
    assert flaws(source) == [(message, 3)]


@pytest.mark.parametrize("depth", [MAX_DEPTH + 10, 20_000])
def test_what_is_nested_without_end_is_a_flaw(depth: int) -> None:
    ((message, _),) = flaws(read_toml("a = " + "[" * depth + "]" * depth))
    assert message.startswith("is nested more than")


def test_an_empty_document_is_an_empty_mapping() -> None:
    assert read_toml("# nothing\n") == Source(data={}, lines={(): 1})
