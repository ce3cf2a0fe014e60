"""The Markdown table of scores in model cards and dataset cards."""

from __future__ import annotations

from markdown_it import MarkdownIt

from benchfleet.exporters.score_table import Score, score_table

NAMES = (
    "*top*_k",
    "a|b",
    "[x](http://e.org)",
    "<img>",
    "two\nlines",
    "`code`",
    "$x$",
    "plain_name",
)


def test_names_are_shown_as_they_are() -> None:
    scores = [Score(config=one, benchmark="a|*b*", value=0.5, stderr=None) for one in NAMES]
    tokens = MarkdownIt("commonmark").enable("table").parse(score_table(scores))
    cells = [token for token in tokens if token.type == "inline"]
    shown = ["".join(part.content for part in cell.children or []) for cell in cells]
    heads = ["benchmark", *(name.replace("\n", " ") for name in NAMES)]
    assert shown == [*heads, "a|*b*", *["0.500"] * len(NAMES)]
    kinds = {part.type for cell in cells for part in cell.children or []}
    assert kinds <= {"text", "text_special"}
