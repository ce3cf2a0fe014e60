"""The terminal report as rich prints it."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from itertools import product

import pytest
from rich.cells import cell_len
from rich.console import Console

from benchfleet.reports.terminal import WHOLE_WIDTH, ComparisonView

from .conftest import Study


def printed(
    study: Study, *, width: int = 80, title: str = "recall-demo", colour: bool = False
) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
    )
    console.print(ComparisonView(comparison=study.compared(), title=title))
    return out.getvalue()


def test_the_demo_fits_80_columns_in_one_table(demo: Study) -> None:
    text = printed(demo)
    lines = [line.rstrip() for line in text.splitlines()]
    assert " config       recall_128         recall_512         recall_1024" in lines
    assert " dense        1.000 ± 0.000      1.000 ± 0.000      1.000 ± 0.000" in lines
    assert " window_32    0.150 ± 0.025      0.150 ± 0.025      0.150 ± 0.025" in lines
    assert "              −0.850 ± 0.025 ▼   −0.850 ± 0.025 ▼   −0.850 ± 0.025 ▼" in lines
    assert " baseline     0.250 · 50 tok/s   0.250 · 50 tok/s   0.250 · 50 tok/s" in lines
    assert "              0.250              0.250              0.250" in lines
    assert text.count("config ") == 1


def test_the_demo_says_what_won_and_where_the_time_went(demo: Study) -> None:
    text = " ".join(printed(demo).split())
    assert text.startswith("recall-demo 30 cells: 30 success")
    assert "dense has the highest mean, 1.000 ± 0.000; significantly higher than window_32" in text
    assert "no significant difference from top_k" in text
    assert "loading 30 s, computing 2 min 00 s" in text


@pytest.mark.parametrize("width", [30, 50, 80, 200])
def test_no_line_is_wider_than_the_terminal(demo: Study, width: int) -> None:
    demo.failed("window_32", subset="128", repeat=2, message="long " * 200 + "x" * 500)
    assert all(cell_len(line) <= width for line in printed(demo, width=width).splitlines())


def test_many_benchmarks_are_split_into_tables_that_fit(study: Study) -> None:
    names = [str(100 + n) for n in range(12)]
    for name in names:
        study.done("dense", [1, 0], subset=name)
    text = printed(study).split("Mean ±")[0]
    assert text.count(" config ") > 1
    assert all(text.count(f"recall_{name} ") == 1 for name in names)


def test_a_file_gets_whole_tables_and_whole_names(study: Study) -> None:
    config = "a-config-with-a-name-of-more-than-24-letters"
    names = [str(100 + n) for n in range(30)]
    for name in names:
        study.done(config, [1, 0], subset=name)
        study.done("dense", [1, 0], subset=name)
    text = printed(study, width=WHOLE_WIDTH)
    assert text.count("\n config ") == 1
    won, rest = text.split("\ntiny ")
    table, more = rest.split("Mean ±")
    assert all(table.split().count(f"recall_{name}") == 1 for name in names)
    assert f" {config} " in table
    prose = [*won.split("Overview")[0].splitlines(), *more.splitlines()]
    assert not any(line.endswith(" ") for line in prose)


def test_a_long_report_begins_with_what_won_and_means_over_all_benchmarks(study: Study) -> None:
    for number in range(10):
        study.done("dense", [1.0, 0.0], subset=str(number))
        study.done("window", [1.0, 1.0 if number < 5 else 0.5], subset=str(number))
    won, tables = printed(study).split("Overview")
    assert all(f"\n  recall_{number}: window " in won for number in range(10))
    assert won.rstrip().count("\n") < 24
    first = tables[: tables.index("recall_0")]
    assert re.search(r"tiny +dense +0\.500 +10 +0", first)
    assert re.search(r"tiny +window +0\.875 +10 +10", first)
    assert first.count("\n") < 24


def test_long_names_of_benchmarks_and_their_numbers_stay_whole(study: Study) -> None:
    names = [f"{100 + n}@f7419d6f" for n in range(8)]
    for name in names:
        study.done("dense", [1, 0], subset=name)
        study.done("streaming", [1, 0], subset=name)
    for width in (80, 100):
        text = printed(study, width=width).split("Mean ±")[0].split("\ntiny ", 1)[1]
        assert all(text.count(f" recall_{name} ") == 1 for name in names)
        assert text.count(" 0.500 ± ") == 2 * len(names)


def test_a_model_is_left_out_of_benchmarks_that_it_does_not_have(study: Study) -> None:
    study.done("dense", [1, 0], model="a", subset="128")
    study.done("dense", [1, 0], model="b", subset="512")
    _, first, second = re.split(r"\n[ab] ", printed(study))
    assert "recall_512" not in first
    assert "recall_128" not in second


def test_what_won_comes_before_all_tables_and_the_rest_after_them(study: Study) -> None:
    for subset in range(12):
        for model in ("a", "b"):
            study.done("dense", [1.0] * 30, model=model, subset=str(subset))
            study.done("window", [0.0] * 30, model=model, subset=str(subset))
    won, rest = printed(study).split("Overview")
    assert "recall_9: " in won
    assert "recall_10: " not in won
    assert "  4 more sentences: see “More on what won” below.\n" in won
    tables, more = rest.split("\nMore on what won\n")
    assert "recall_11" in tables
    assert "\n  recall_11: a × dense and b × dense have the highest mean" in more
    assert "\n  b on recall_0, " in more


@pytest.mark.slow
def test_a_terminal_gets_a_thousand_entries_and_a_file_all(study: Study) -> None:
    for model in range(4):
        for config, subset in product(range(4), range(100)):
            study.done(f"c{config}", [config % 2], model=f"m{model}", subset=str(subset))
    text = printed(study)
    assert {line.strip() for line in text.splitlines() if re.fullmatch(r"m\d +", line)} == {
        "m0",
        "m1",
    }
    assert (
        "The tables of 2 more models are left out: `benchfleet report --output FILE` has all"
        in re.sub(r"\s+", " ", text)
    )
    whole = printed(study, width=WHOLE_WIDTH)
    assert len([line for line in whole.splitlines() if re.fullmatch(r"m\d +", line)]) == 4
    assert "left out" not in whole


def test_sure_differences_are_coloured(demo: Study) -> None:
    text = printed(demo, colour=True)
    assert "\x1b[31m−0.850 ± 0.025 ▼" in text
    assert "\x1b[2m−0.010 ± 0.007 ≈" in text


def test_hostile_names_and_messages_are_only_shown(study: Study) -> None:
    name = "[red]x[/red]\x9b31m\u202e"
    study.done(name, [1, 0], model=name)
    study.failed("dense", message="\x1b]0;t\x07\r[/bogus] :smile:", model=name)
    text = printed(study, title=name)
    assert "[red]x[/red]\\x9b31m\\u202e" in text
    assert "\\x1b]0;t\\x07 [/bogus] :smile:" in text
    assert not {"\x1b", "\x9b", "\x07", "\r", "\u202e"} & set(text)


def test_failures_come_with_their_way_out_indented(study: Study) -> None:
    for repeat in range(6):
        study.failed("dense", repeat=repeat, message="3 GB asked")
    lines = [line.rstrip() for line in printed(study, width=100).splitlines()]
    assert "  load: oom (6 cells): 3 GB asked" in lines
    assert any(line.startswith("    Set a smaller batch_size") for line in lines)
    assert any(line.endswith("and 2 more") for line in lines)
    assert any(line.startswith("    left in .attempts/") for line in lines)


def test_notes_are_shown(study: Study) -> None:
    study.done("dense", [1, 0], host="lab1", device="gpu:0")
    study.done("window", [1, 0], host="lab2", device="cpu:0")
    assert "lab1 (gpu), lab2 (cpu)" in " ".join(printed(study).split())


def test_an_empty_campaign_prints_that_it_is(study: Study) -> None:
    assert printed(study).strip() == "recall-demo   no cells"


def test_importing_the_reports_loads_nothing_heavy() -> None:
    code = (
        "import sys, benchfleet.reports.terminal, benchfleet.reports.markdown;"
        "print({'rich', 'pydantic', 'numpy', 'torch'} & {n.split('.')[0] for n in sys.modules})"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
