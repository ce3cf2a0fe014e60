from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchfleet.domain.names import MAX_PART, path_part


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama_Llama-3.1-8B-Instruct"),
        ("deepseek-r1:32b", "deepseek-r1_32b"),
        ('a\\b*c?d"e<f>g|h', "a_b_c_d_e_f_g_h"),
        ("cfg/../x", "cfg_.._x"),
        ("top-10%", "top-10%"),
        ("Größe 2", "Größe 2"),
    ],
)
def test_a_name_is_sanitised_as_users_know_it(name: str, part: str) -> None:
    assert path_part(name) == part


@pytest.mark.parametrize("name", ["", ".", "..", "../x", ".hidden", "./model"])
def test_a_name_that_would_hide_or_climb_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"empty|may not start with a dot"):
        path_part(name)


@pytest.mark.parametrize("name", [" a", "a ", "\ta", "a\nb", "a\0", "a\x7f", "a\u2003"])
def test_surrounding_spaces_and_control_characters_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="surrounding spaces or control characters"):
        path_part(name)


def test_length_is_counted_in_bytes() -> None:
    assert path_part("é" * (MAX_PART // 2)) == "é" * (MAX_PART // 2)
    with pytest.raises(ValueError, match=f"longer than {MAX_PART} bytes"):
        path_part("é" * (MAX_PART // 2) + "x")


@settings(deadline=None)
@given(st.text(max_size=80))
def test_what_is_let_through_is_one_safe_part_and_stays_as_it_is(name: str) -> None:
    try:
        part = path_part(name)
    except ValueError:
        return
    assert part
    assert not part.startswith(".")
    assert not set(part) & set('/\\:*?"<>|\0\n')
    assert len(part) == len(name)
    assert path_part(part) == part
