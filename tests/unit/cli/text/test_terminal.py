"""Hostile text as a terminal shows it."""

from __future__ import annotations

from benchfleet.cli.text.terminal import columns, padded, printable


def test_what_could_steer_a_terminal_is_taken_out() -> None:
    assert printable("\x1b[31mred\x07\udce9 ± ✓") == "red\ufffd\ufffd ± ✓"
    assert printable("\x1b]8;;http://there\x1b\\link\x1b]0;title\x07 \x1b(B.") == "link \ufffd(B."


def test_a_line_end_and_what_is_around_it_become_one_blank() -> None:
    assert printable("from one of: \n(1) a file, \r\n\n  (2) another") == (
        "from one of: (1) a file, (2) another"
    )


def test_wide_characters_take_two_columns_and_accents_none() -> None:
    assert [columns(text) for text in ("m1", "模型", "e\u0301", "±")] == [2, 4, 1, 1]
    assert padded("模型", 6) == "模型  "
    assert padded("model", 3) == "model"
