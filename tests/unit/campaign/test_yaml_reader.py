from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from benchfleet.campaign.source import MAX_DEPTH, Source
from benchfleet.campaign.yaml_reader import read_yaml

from .reading import flaws


def test_every_value_has_the_line_it_stands_on() -> None:
    source = read_yaml("a: 1\nb:\n  - x\n  - {c: 2,\n     d: 3}\n")
    assert source.data == {"a": 1, "b": ["x", {"c": 2, "d": 3}]}
    lines = {("a",): 1, ("b",): 2, ("b", 0): 3, ("b", 1, "c"): 4, ("b", 1, "d"): 5}
    assert {path: source.line(path) for path in lines} == lines


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-3", -3),
        ("010", "010"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("0x1F", "0x1F"),
        ("1e-3", 0.001),
        ("0.10", 0.1),
        (".5", 0.5),
        ("2024-01-01", "2024-01-01"),
        ("'12'", "12"),
        ("'null'", "null"),
        ("!!str 12", "12"),
        ("10%", "10%"),
        ("1.2.3", "1.2.3"),
        ("'<<'", "<<"),
    ],
)
def test_scalars_are_what_they_look_like(text: str, value: Any) -> None:
    read = read_yaml(f"a: {text}").data["a"]
    assert (read, type(read)) == (value, type(value))


def test_keys_are_text_as_written() -> None:
    assert read_yaml("{no: 1, 1.10: 2, null: 3, 08: 4}").data == {
        "no": 1,
        "1.10": 2,
        "null": 3,
        "08": 4,
    }


def test_a_key_that_stands_twice_names_both_lines() -> None:
    source = read_yaml("a:\n  b: 1\n  c: 2\n  b: 3\n")
    assert source.data == {"a": {"b": 1, "c": 2}}
    assert flaws(source) == [("stands twice, first on line 2; remove one", 4)]
    assert source.flaws[0].path == ("a", "b")


def test_anchors_and_aliases_give_equal_values() -> None:
    assert read_yaml("a: &x {k: [1]}\nb: *x\n").data == {"a": {"k": [1]}, "b": {"k": [1]}}


def test_merged_keys_lie_below_the_mappings_own_and_earlier_sources_win() -> None:
    source = read_yaml(
        dedent(
            """\
            one: &one {a: 1, b: 1}
            two: &two {a: 2, b: 2, c: 2}
            own:
              <<: [*one, *two]
              a: 0
            """
        )
    )
    assert source.data["own"] == {"a": 0, "b": 1, "c": 2}
    assert source.flaws == ()
    assert source.line(("own", "a")) == 5
    assert source.line(("own", "b")) == 1


def test_a_merge_of_something_else_than_a_mapping_is_a_flaw() -> None:
    ((message, line),) = flaws(read_yaml("a:\n  <<: 3\n  b: 1\n"))
    assert message.startswith("'<<' takes a mapping")
    assert line == 2


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system [ls]",
        "!!python/name:os.system",
        "!!python/object/new:dict {a: 1}",
        "!mine 3",
        "!dense",
        "!!set {a, b}",
    ],
)
def test_tags_make_nothing_but_a_flaw(text: str) -> None:
    source = read_yaml(f"a: {text}")
    assert source.data == {"a": None}
    (flaw,) = source.flaws
    assert flaw.path == ("a",)
    assert "is a tag of YAML" in flaw.message


@pytest.mark.parametrize("text", [".inf", "-.inf", ".nan", "1e999", "9" * 5000, '"\\0"', "!!int x"])
def test_what_json_cannot_hold_is_a_flaw(text: str) -> None:
    source = read_yaml(f"a: {text}")
    assert source.data == {"a": None}
    assert len(source.flaws) == 1


@pytest.mark.parametrize("key", ["[1, 2]", "{a: 1}", "? [x]\n", '"\\0"'])
def test_a_key_that_is_no_text_is_a_flaw(key: str) -> None:
    ((message, line),) = flaws(read_yaml(f"{key}: 1"))
    assert (message, line) == ("a key must be text", 1)


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        ("a: [1, 2\nb: 3", "is not YAML: the '[' here is not closed; add ']' or a missing ','", 1),
        ("a:\n  - {b: c\n  - d\n", "is not YAML: the '{' here is not closed; add '}'", 2),
        ("a: ['b' 'c']", "is not YAML: the '[' here is not closed; add ']' or a missing ','", 1),
        ("a: {b: {c: d}\n", "is not YAML: the '{' here is not closed; add '}'", 1),
        ("a:\n\t- 1", "is not YAML: a tab stands where YAML wants spaces", 2),
        ("a: @b", "is not YAML: text may not begin with '@'; quote it", 1),
        ("a: 1\u2028b: `c`", "is not YAML: text may not begin with '`'; quote it", 2),
        ("a: b: c", "is not YAML: a ':' stands where none can", 1),
        ("a: 1\n---\nb: 2\n", "is not YAML: a second document begins", 2),
        ("a: *nowhere", "is not YAML", 1),
        ("a: \x00", "is not YAML", None),
    ],
)
def test_text_that_is_not_yaml_is_reported_with_its_line(
    text: str, problem: str, line: int | None
) -> None:
    source = read_yaml(text)
    ((message, found),) = flaws(source)
    assert source.data is None
    assert message.startswith(problem)
    assert found == line


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "~"])
def test_a_file_that_says_nothing_is_none_without_a_flaw(text: str) -> None:
    assert read_yaml(text) == Source(data=None, lines=read_yaml(text).lines)


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000 + "x", "{a: " * 100_000])
def test_nesting_without_end_is_refused_and_crashes_nothing(text: str) -> None:
    ((message, _),) = flaws(read_yaml(text))
    assert message.startswith(f"is nested more than {MAX_DEPTH} deep")


@pytest.mark.slow
def test_aliases_that_unfold_without_end_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    ((message, _),) = flaws(read_yaml("\n".join(lines)))
    assert message.startswith("unfolds to more than 200,000 values")


@pytest.mark.slow
def test_merges_that_unfold_without_end_are_refused() -> None:
    lines = ["a0: &a0 {k: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}, *a{n - 1}]}}" for n in range(1, 40)]
    ((message, _),) = flaws(read_yaml("\n".join(lines)))
    assert message.startswith("unfolds to more than 200,000 values")


@pytest.mark.parametrize("text", ["a: &a [1, *a]", "a: &a {b: *a}", "a: &a {<<: *a}"])
def test_an_alias_inside_itself_is_refused(text: str) -> None:
    ((message, _),) = flaws(read_yaml(text))
    assert message.startswith("is nested more than")


_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(st.characters(categories=["L"]), min_size=1), _PLAIN))
def test_plain_data_comes_back_as_it_was_written(data: dict[str, Any]) -> None:
    source = read_yaml(yaml.safe_dump(data, default_style='"'))
    assert (source.data, source.flaws) == (data or {}, ())


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_gives_data_or_a_flaw(text: str) -> None:
    source = read_yaml(text)
    assert all(flaw.message for flaw in source.flaws)
    assert all(line >= 1 for line in source.lines.values())
