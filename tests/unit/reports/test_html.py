"""The HTML report, read back by a parser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from typing import Any

import pytest

from benchfleet.errors import MissingExtra
from benchfleet.reports import html

from .conftest import Study

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=\"alert('2')\">{{ 7*7 }}\u202e]]>"
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """The page's elements, attributes and texts; raises where a tag is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.tables: list[list[list[str]]] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            self.tables[-1][-1].append("")
        elif tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data.strip("\n")
        elif self.open and self.open[-1] == "script":
            self.scripts[-1] += data


def text(study: Study, title: str = "t") -> str:
    return html.render(study.compared(), title=title)


def page(study: Study, title: str = "t") -> Page:
    return Page(text(study, title))


def figures(found: Page) -> list[dict[str, Any]]:
    """The figures as the page's script reads them."""
    read: list[dict[str, Any]] = json.loads(found.scripts[0])
    return read


@pytest.fixture
def hostile(study: Study) -> Study:
    for model in (HOSTILE, "tiny"):
        study.done("dense", [1, 0], model=model, host="<h1>", device="cpu:0")
        study.done(HOSTILE, [1, 1], model=model, host="lab", device="cpu:0")
        study.failed("x", model=model, stage=HOSTILE, message=HOSTILE)
    return study


def test_the_tables_hold_scores_differences_cost_and_time(demo: Study) -> None:
    scores, differences, costs, time = page(demo).tables
    head = ["model", "config", "recall_128", "recall_512", "recall_1024"]
    assert scores[0] == head
    assert scores[1] == ["tiny-recall", "dense", *["1.000 ± 0.000"] * 3]
    assert scores[5] == ["top_k", *["0.990 ± 0.007"] * 3]
    assert differences[1] == ["tiny-recall", "window_32", *["−0.850 ± 0.025 ▼"] * 3]
    assert costs[1] == ["tiny-recall", "dense", *["0.250 · 50 tok/s"] * 3]
    assert time[0:2] == [
        ["model", "config", "loading", "computing"],
        ["tiny-recall", "dense", "6.0 s", "24 s"],
    ]


def test_the_page_says_what_won_and_how_it_was_computed(demo: Study) -> None:
    found = re.sub(r"</?bdi>", "", text(demo))
    assert "30 cells: 30 success." in found
    assert "dense has the highest mean, 1.000 ± 0.000; significantly higher than window_32" in found
    assert "Holm" in found
    assert "Failures" not in found


def test_a_figure_of_one_score_names_it_once(study: Study) -> None:
    for model in ("a", "b"):
        study.done("dense", [1, 0], model=model)
        study.done("window", [0, 1], model=model)
    assert "all scores are 0.500" in text(study)
    assert "scores from" not in text(study)


def test_the_page_asks_nothing_of_anyone(hostile: Study) -> None:
    found = page(hostile)
    asking = {"src", "href", "action", "data", "poster", "srcset", "background", "xlink:href"}
    wanted = [value for name, value in found.attributes if name in asking]
    assert wanted
    assert all(value and value.startswith("#") for value in wanted)
    assert "url(" not in text(hostile).split("<body>")[0]
    assert "@import" not in text(hostile).split("<body>")[0]


def test_the_policy_allows_the_pages_own_script_alone(hostile: Study) -> None:
    found = page(hostile)
    (policy,) = [value for _, value in found.attributes if value and "default-src" in value]
    data, script = found.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}';" in policy
    assert "unsafe-eval" not in policy
    assert json.loads(data)
    assert not set("<>&") & set(data)


def test_hostile_names_are_shown_and_mean_nothing(hostile: Study) -> None:
    found = page(hostile, title=HOSTILE)
    shown = HOSTILE.replace("\u202e", "\\u202e")
    assert found.tags.count("script") == 2
    assert "img" not in found.tags
    assert not any(name.startswith("on") for name, _ in found.attributes)
    assert any(shown in cell for table in found.tables for row in table for cell in row)
    assert "\u202e" not in text(hostile, title=HOSTILE)
    rows = [dict(zip(f["fields"], v, strict=True)) for f in figures(found) for v in f["values"]]
    assert {row["column_name"] for row in rows if "column" in row} == {"dense", shown, "x"}


def test_the_script_finds_every_chart_that_the_page_has_a_place_for(hostile: Study) -> None:
    found = page(hostile)
    places = [
        (int(number or ""), chart or "")
        for (name, number), (other, chart) in zip(
            found.attributes, found.attributes[1:], strict=False
        )
        if (name, other) == ("data-figure", "data-chart")
    ]
    maps, others = places[:2], places[2:]
    assert maps == [(0, "scores"), (0, "differences")]
    assert others == [(number, "chart") for number in range(1, 1 + len(others))]
    assert others
    assert len(figures(found)) == 1 + len(others)
    for number, chart in places:
        spec = figures(found)[number][chart]
        assert spec.get("spec", spec).get("layer") or spec["mark"]
    assert all(figures(found)[number]["narrow"] for number, _ in others)


def test_names_from_right_to_left_turn_nothing_around(study: Study) -> None:
    """Isolated one by one where they are joined, and where they are in a sentence."""
    for model in ("מודל", "tiny"):
        many = {"ended_length": 0.5}
        study.done("dense", [1, 0, 1], model=model, subset="50%", host="מחשב 2", metrics=many)
        study.done("<b>", [0, 0, 0], model=model, subset="50%", host="lab")
        study.failed("<b>", model=model, subset="512")
    written = text(study)
    name = "<bdi>מודל</bdi>"
    assert f"<bdi>{name} × dense</bdi>" in written
    assert f"<bdi>{name} × &lt;b&gt;</bdi>" in written
    assert (
        f'<p class="warning"><strong>Warning:</strong> {name} / dense / recall_50%: 50%' in written
    )
    assert f"<code><bdi>{name}/_b_/recall_512/r0</bdi></code>" in written
    assert "lab, <bdi>מחשב</bdi> 2." in written
    assert f'<th scope="rowgroup" rowspan="2"><bdi>{name}</bdi></th>' in written


def test_failures_come_with_message_cells_and_way_out(study: Study) -> None:
    for repeat in range(25):
        study.failed("dense", repeat=repeat, message="3 GB asked\nof 2")
    found = re.sub(r"</?bdi>", "", text(study))
    assert "<pre>3 GB asked of 2</pre>" in found
    assert "Set a smaller batch_size" in found
    assert "<code>tiny/dense/recall_512/r19</code> and 5 more." in found


def test_differences_have_their_interval_and_a_colour_where_they_are_sure(demo: Study) -> None:
    found = text(demo)
    assert found.count('<td class="lower"') == 9
    assert found.count('<td class="unsure"') == 3
    assert re.search(r'<td class="lower" title="−0\.\d{3} to −0\.\d{3} on \d+ values">', found)


@pytest.mark.slow
def test_many_verdicts_become_a_table_of_who_leads_where(study: Study) -> None:
    for model in range(13):
        study.done("dense", [1] * 30 + [0], model=f"m{model}")
        study.done("window", [0] * 31, model=f"m{model}")
        study.done("top_k", [1] * 30 + [0], model=f"m{model}")
    found = page(study)
    assert found.tables[0][:2] == [["model", "recall_512"], ["m0", "dense▲ 1 ≈ 1"]]
    written = text(study)
    won, rest = written.split("<table", 1)
    assert "</bdi>: <bdi>m0 × dense</bdi>" in won
    assert '<a href="#more">13 more sentences: see “More on what won” below.</a>' in won
    assert "<bdi>m12</bdi> on <bdi>recall_512</bdi>: " in rest
    assert "details" in found.tags
    assert "dense leads 13 of 13." in re.sub(r"</?bdi>", "", text(study))


def test_the_table_of_leaders_says_what_cannot_be_compared(study: Study) -> None:
    for model in range(13):
        study.done("dense", [1], model=f"m{model}", repeat=0)
        study.done("window", [0], model=f"m{model}", repeat=1)
        study.done("top_k", [0], model=f"m{model}", repeat=1)
    assert page(study).tables[0][:2] == [["model", "recall_512"], ["m0", "dense? 2"]]
    assert "? 1: cannot be compared with one" in text(study)
    few = "Too few shared samples or repeats to compare with window and top_k."
    assert few in re.sub(r"</?bdi>", "", text(study))


@pytest.mark.slow
def test_a_page_of_many_cells_stays_below_two_megabytes(study: Study) -> None:
    for model in range(20):
        for config in ("dense", *(f"streaming-{n}" for n in range(11))):
            for subset in range(8):
                study.done(
                    config,
                    [(model * 7 + n * subset) % 10 / 9 for n in range(4)],
                    model=f"org/model-{model}-instruct",
                    subset=f"subset-{subset}",
                    metrics={"density": 0.25, "completion_tokens": 100, "seconds": 2.0},
                )
    written = text(study)
    assert len(written.encode()) < 2_000_000
    found = Page(written)
    drawn = [len(figure["values"]) for figure in figures(found) if "scores" in figure]
    assert sum(drawn) == 20 * 12 * 8
    assert [len(table) for table in found.tables[1:4]] == [241, 221, 241]


@pytest.mark.parametrize("state", ["pending", "running", "skipped", "cancelled"])
def test_a_campaign_without_results_still_makes_a_page(study: Study, state: str) -> None:
    study.record(study.cell("dense"), state)
    found = page(study)
    assert found.scripts == []
    assert found.tables[0][1] == ["tiny", "dense", state]


def test_an_empty_campaign_makes_a_page(study: Study) -> None:
    assert "no cells." in text(study)
    assert page(study).tables == []


def test_the_same_results_make_the_same_page(demo: Study) -> None:
    assert text(demo) == text(demo)


@pytest.mark.parametrize("package", ["altair", "vl_convert", "jinja2"])
def test_without_the_extra_the_page_is_refused_with_the_pip_line(
    demo: Study, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"needs {package}; pip install 'benchfleet\[report\]'"):
        text(demo)
