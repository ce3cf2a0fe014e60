"""Foreign text is made harmless."""

from __future__ import annotations

import pytest

from benchfleet.dashboard.foreign import breakable, log_html, one_line, short_path, visible


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain – text ✓", "plain – text ✓"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x00\x07\x1b", "␀␇␛"),
        ("\x7f", "␡"),
        ("safe\u202etxt.exe", "safe⟨U+202E⟩txt.exe"),  # right-to-left override
        ("zero\u200bwidth", "zero⟨U+200B⟩width"),
        ("lone \ud800", "lone ⟨U+D800⟩"),
    ],
)
def test_invisible_characters_become_visible(text: str, expected: str) -> None:
    assert visible(text) == expected


def test_one_line_is_one_line_and_bounded() -> None:
    assert one_line("a\nb   c") == "a b c"
    assert len(one_line("x" * 10_000)) == 300


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\x1b[31mred\x1b[0m plain", '<span class="ansi-red">red</span> plain'),
        ("\x1b[1;32mbold\x1b[m", '<span class="ansi-bold ansi-green">bold</span>'),
        ("\x1b]8;;javascript:alert(1)\x1b\\click\x1b]8;;\x1b\\", "click"),  # a terminal's link
        ("\x1b]0;title\x07text", "text"),
        ("\x1b[2J\x1b[Htext", "text"),  # clears a terminal
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ('\x1b[31m"><img src=x onerror=alert(1)>', None),
    ],
)
def test_a_log_line_keeps_its_colours_and_nothing_that_acts(line: str, expected: str) -> None:
    html = str(log_html(line))
    assert "<img" not in html
    assert "<script" not in html
    assert "javascript:" not in html
    assert "\x1b" not in html
    if expected is not None:
        assert html == expected


def test_a_long_log_line_is_cut_and_says_so() -> None:
    assert "(1000 more characters)" in str(log_html("x" * 5000))


def test_a_path_wraps_behind_its_slashes_only() -> None:
    assert str(breakable("a/<b>_c")) == "a/<wbr>&lt;b&gt;_<wbr>c"


def test_a_long_path_lacks_the_middle_of_its_longest_name() -> None:
    long = "begin" + "x" * 200 + "end"
    text = short_path(f"{long}/dense/bench_1/r0", 60).replace("<wbr>", "")
    assert len(text) == 60
    assert text.startswith("begin")
    assert text.endswith("end/dense/bench_1/r0")
    assert short_path("tiny/dense/b/r0", 60).replace("<wbr>", "") == "tiny/dense/b/r0"
    assert "<script>" not in short_path("<script>/" * 40, 60)
