"""The Markdown report, read back by a Markdown parser."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from benchfleet.domain.plain_text import markdown_text, one_line
from benchfleet.reports import markdown

from .conftest import Study

HOSTILE = "a|b`c` <b>*x*</b> [y](http://z) __d__ # e \\ ~~f~~ & ![g](h) \x9b31m"


def parsed(text: str) -> list[Token]:
    return MarkdownIt("gfm-like", {"linkify": False}).parse(text)


def table_cells(text: str) -> list[list[str]]:
    """Each table row as its cells' text, as a reader sees them."""
    rows: list[list[str]] = []
    for token in parsed(text):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows and token.level >= 3:
            rows[-1].append("".join(child.content for child in token.children or ()))
    return rows


def kinds(text: str) -> set[str]:
    """Every inline construct that the text makes."""
    return {child.type for token in parsed(text) for child in token.children or ()}


def test_the_report_shows_scores_and_differences_by_model_and_config(demo: Study) -> None:
    rows = table_cells(markdown.render(demo.compared(), title="recall-demo"))
    head = ["model", "config", "recall_128", "recall_512", "recall_1024"]
    assert rows[0] == head
    assert rows[1] == ["tiny-recall", "dense", *["1.000 ± 0.000"] * 3]
    assert rows[5] == ["tiny-recall", "top_k", *["0.990 ± 0.007"] * 3]
    assert rows[6] == head
    assert rows[7] == ["tiny-recall", "window_32", *["−0.850 ± 0.025 ▼"] * 3]
    assert rows[10] == ["tiny-recall", "top_k", *["−0.010 ± 0.007 ≈"] * 3]


def test_the_report_says_what_won_and_how_it_was_computed(demo: Study) -> None:
    text = markdown.render(demo.compared(), title="recall-demo")
    assert text.startswith(
        "# recall-demo\n\n30 cells: 30 success.\n\n## What won\n\n- recall_128: "
    )
    assert "## Differences to dense" in text
    assert "density 0.250, 50 tok/s" in text
    assert "s/√n" in text
    assert "Holm" in text
    assert "## Failures" not in text


def test_missing_results_are_distinguished_from_excluded_ones(study: Study) -> None:
    study.done("dense", [1, 0], subset="128")
    study.cell("window", subset="128")
    study.done("dense", [1, 0], subset="512")
    rows = table_cells(markdown.render(study.compared(), title="t"))
    assert rows[1:3] == [
        ["tiny", "dense", "0.500 ± 0.500", "0.500 ± 0.500"],
        ["tiny", "window", "pending", "–"],
    ]


def test_failures_come_with_message_cells_and_way_out(study: Study) -> None:
    for repeat in range(25):
        study.failed("dense", repeat=repeat, message="3 GB `asked`\nof 2")
    text = markdown.render(study.compared(), title="t")
    assert "- **load: oom** (25 cells): `` 3 GB `asked` of 2 ``" in text
    assert "  - What to do: Set a smaller batch_size" in text
    assert "`tiny/dense/recall_512/r19` and 5 more" in text
    assert "`.attempts/" in text


def test_hostile_names_are_shown_and_mean_nothing(study: Study) -> None:
    study.done(HOSTILE, [1, 0], model=HOSTILE)
    study.done("x|y", [0, 0], model=HOSTILE)
    text = markdown.render(study.compared(), title=HOSTILE)
    shown = HOSTILE.replace("\x9b", "\\x9b")
    assert table_cells(text)[1][:2] == [shown, shown]
    assert {len(row) for row in table_cells(text)} == {3, 4}  # time has a column more
    assert kinds(text) <= {"text", "text_special"}
    assert not any(token.type == "html_block" for token in parsed(text))


def test_hostile_messages_stay_in_their_code_span(study: Study) -> None:
    study.failed("dense", message="``` <script>\n\n# x | y ` z")
    text = markdown.render(study.compared(), title="t")
    spans = [
        child.content
        for token in parsed(text)
        for child in token.children or ()
        if child.type == "code_inline"
    ]
    assert spans[0] == "``` <script> # x | y ` z"
    assert "html_inline" not in kinds(text)


def test_a_dollar_begins_no_formula(study: Study) -> None:
    study.done("$money$", [1, 0], model="$x")
    study.done("\\$y$$", [0, 1], model="$x")
    text = markdown.render(study.compared(), title="$t$")
    assert table_cells(text)[1][:2] == ["$x", "$money$"]
    assert table_cells(text)[2][:2] == ["$x", "\\$y$$"]
    assert r"| \$x | \\\$y\$\$ |" in text
    assert not re.search(r"(?<!\\)(\\\\)*\$", text)


@given(st.text(min_size=1, alphabet=st.characters(codec="utf-8")))
def test_escaped_text_reads_as_it_was(text: str) -> None:
    shown = one_line(text)
    tokens = parsed(f"is {markdown_text(text)} it")
    (inline,) = [token for token in tokens if token.type == "inline"]
    assert "".join(child.content for child in inline.children or ()) == f"is {shown} it"
    assert {child.type for child in inline.children or ()} <= {"text", "text_special"}


@given(st.text(alphabet=st.sampled_from("`a |<\\")))
def test_code_reads_as_it_was(text: str) -> None:
    (inline,) = [
        token for token in parsed(f"is {markdown.code(text)} it") if token.type == "inline"
    ]
    (span,) = [child.content for child in inline.children or () if child.type == "code_inline"]
    assert span.strip() == one_line(text)


def test_notes_are_in_the_report(study: Study) -> None:
    study.done("dense", [1, 0], host="<lab1>", device="gpu:0")
    study.done("window", [1, 0], host="lab2", device="cpu:0")
    assert "- Results come from 2 machines" in markdown.render(study.compared(), title="t")
    assert "&lt;lab1&gt; (gpu), lab2 (cpu)." in markdown.render(study.compared(), title="t")


def test_long_messages_are_cut() -> None:
    assert len(markdown.code("x" * 9000)) < 600


@pytest.mark.parametrize("state", ["pending", "running", "skipped", "cancelled"])
def test_a_campaign_without_results_still_makes_a_report(study: Study, state: str) -> None:
    study.record(study.cell("dense"), state)
    text = markdown.render(study.compared(), title="t")
    assert f"1 cell: 1 {state}." in text
    assert "What won" not in text


def test_an_empty_campaign_makes_a_report(study: Study) -> None:
    assert "no cells." in markdown.render(study.compared(), title="t")


def test_a_long_report_begins_with_means_over_all_benchmarks(study: Study) -> None:
    for number in range(10):
        study.done("dense", [1.0, 0.0], subset=str(number))
        study.done("window", [1.0, 1.0 if number < 5 else 0.5], subset=str(number))
    study.done("dense", [1.0, 1.0], subset="other")  # not compared: the other has no result
    study.failed("window", subset="other")
    text = markdown.render(study.compared(), title="t")
    assert "| tiny | dense | 0.500 | 10 |" in text
    assert "| tiny | window | 0.875 | 10 | 10 |" in text
    assert text.index("## What won") < text.index("## Overview") < text.index("## Scores")


def test_what_won_comes_before_all_tables_and_the_rest_after_them(study: Study) -> None:
    for model in ("a", "b"):
        study.done("dense", [1.0] * 30, model=model)
        study.done("window", [0.0] * 30, model=model)
    text = markdown.render(study.compared(), title="t")
    parts = [
        "- recall_512: a × dense and b × dense have the highest mean",
        "2 more sentences: see “More on what won” below.\n\n## Scores",
        "## More on what won\n\n- a on recall_512: dense is best",
    ]
    assert [text.count(part) for part in parts] == [1, 1, 1]
    assert [*map(text.index, parts)] == sorted(map(text.index, parts))


def test_the_mean_of_an_overview_leaves_out_benchmarks_of_another_scale(study: Study) -> None:
    for number in range(9):
        study.done("dense", [1.0, 0.0], subset=str(number))
        study.done("window", [1.0, 1.0], subset=str(number))
    study.done("dense", [40.0, 60.0], subset="percent")
    study.done("window", [0.5, 0.5], subset="percent")
    text = markdown.render(study.compared(), title="t")
    assert "| tiny | dense | 0.500 | 9 | 1 |" in text
    assert "| tiny | window | 1.000 | 9 | 9 |" in text
