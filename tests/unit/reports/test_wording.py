"""The words and numbers that the reports share."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchfleet.domain.plain_text import one_line
from benchfleet.reports import html, markdown, verdicts, wording

from .conftest import Study


def plain(text: str) -> str:
    return text


def sentences(study: Study) -> list[str]:
    return verdicts.sentences(study.compared(), plain)


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_one_line_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    shown = one_line(text)
    shown.encode("utf-8")
    assert not any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in shown)


def test_many_that_do_not_differ_are_the_others(study: Study) -> None:
    for config in ("dense", *"abcd"):
        study.done(config, [1.0] * (5 + (config == "dense")) + [0.0] * 5)
    (sentence,) = sentences(study)
    assert "no significant difference from the 4 others (detectable" in sentence


def test_one_line_shows_what_it_takes_out() -> None:
    assert one_line("a\x1b[31mb\nc\u202ed") == "a\\x1b[31mb c\\u202ed"


def test_one_line_is_cut_with_a_mark() -> None:
    assert one_line("word " * 9, 12) == "word word w…"


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, "a"), (2, "a and b"), (3, "a, b and c"), (12, "a, b, c, d and 8 more")],
)
def test_names_are_listed_and_many_are_counted(count: int, expected: str) -> None:
    assert wording.listed("abcdefghijkl"[:count]) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 0], "0.500 ± 0.500"),
        ([74, 75], "74.5 ± 0.5"),
        ([4, 5], "4.50 ± 0.50"),
        ([1], "1.000 ± ?"),
    ],
)
def test_scores_have_the_places_of_their_scale(
    study: Study, values: Sequence[int], expected: str
) -> None:
    study.done("dense", values)
    (entry,) = study.compared().entries
    assert wording.score(entry, wording.decimals(study.compared(), "recall_512")) == expected


def test_differences_are_signed_and_marked(study: Study) -> None:
    study.done("dense", [0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    study.done("higher", [0.9, 0.9, 0.9, 0.9, 0.9, 0.9])
    study.done("lower", [0.1, 0.1, 0.1, 0.1, 0.2, 0.1])
    study.done("alike", [0.5, 0.5, 0.5, 0.5, 0.5, 0.499])
    found = [wording.difference(entry, 2) for entry in study.compared().entries]
    assert found[0] == ""
    assert found[1:] == ["+0.40 ± 0.00 ≈", "−0.38 ± 0.02 ▼", "0.00 ± 0.00 ≈"]


def test_many_equal_differences_are_marked_as_sure(study: Study) -> None:
    study.done("dense", [0.5] * 20)
    study.done("higher", [0.9] * 20)
    assert wording.difference(study.compared().entries[1], 2) == "+0.40 ± 0.00 ▲"


def test_counts_name_the_states_that_occur(study: Study) -> None:
    study.done("dense", [1, 0])
    study.failed("window")
    assert wording.counts(study.compared()) == "2 cells: 1 success, 1 failed"


def test_one_state_needs_no_number(study: Study) -> None:
    study.failed("dense", repeat=0)
    study.failed("dense", repeat=1)
    (entry,) = study.compared().entries
    assert wording.score(entry, 3) == "failed"


def test_a_verdict_says_what_leads_by_how_much_and_how_surely(demo: Study) -> None:
    first, second, third = sentences(demo)
    assert first == (
        "recall_128: dense has the highest mean, 1.000 ± 0.000; significantly higher than "
        "window_32, window_128 and window_256, of which window_256 is closest, 0.450 ± 0.035 lower "
        "(p < 0.001); no significant difference from top_k (detectable from 0.026)."
    )
    assert second == first.replace("128:", "512:", 1)
    assert third == first.replace("128:", "1024:", 1)


def test_a_verdict_says_when_all_are_beaten(study: Study) -> None:
    study.done("dense", [1.0] * 20)
    study.done("window", [0.0] * 20)
    study.failed("sink")
    assert sentences(study) == [
        "recall_512: dense is best, 1.000 ± 0.000; significantly higher than window by "
        "1.000 ± 0.000 (p < 0.001). No result: sink."
    ]


def test_a_verdict_says_when_nothing_is_sure(study: Study) -> None:
    study.done("dense", [1.0, 0.0])
    study.done("window", [0.0, 0.0])
    assert sentences(study) == [
        "recall_512: dense has the highest mean, 0.500 ± 0.500; no significant difference from "
        "window (too few samples to detect any difference)."
    ]


def test_scores_of_a_larger_scale_keep_the_difference_that_is_detectable(study: Study) -> None:
    study.done("dense", [10.0, 0.0])
    study.done("window", [0.0, 0.0])
    (sentence,) = sentences(study)
    assert "(detectable from " in sentence


def test_nobody_leads_where_all_have_the_same_mean(study: Study) -> None:
    for subset in ("128", "512"):
        study.done("dense", [1.0, 0.0], subset=subset)
        study.done("window", [0.0, 1.0], subset=subset)
    study.done("dense", [1.0, 0.0], subset="64")
    study.done("window", [0.0, 0.0], subset="64")
    tie, *_ = sentences(study)
    assert tie == "recall_128: dense and window have the same mean, 0.500 ± 0.500."
    assert verdicts.leads(study.compared(), str) == "dense leads 1 of 3; 2 of 3 are ties."


def test_configs_with_equal_scores_on_few_shared_samples_do_not_have_the_same_mean(
    study: Study,
) -> None:
    study.done("dense", [*[1.0, 0.0] * 5, *[1.0] * 30])
    study.done("window", [1.0, 0.0] * 5)
    (sentence,) = sentences(study)
    assert sentence.startswith("recall_512: dense has the highest mean, 0.875 ± 0.053; no signific")
    assert "same mean" not in sentence


def test_a_verdict_on_one_config_claims_nothing(study: Study) -> None:
    study.done("dense", [1.0, 0.0])
    assert sentences(study) == ["recall_512: dense is the only one with a result, 0.500 ± 0.500."]


def test_a_verdict_says_when_there_is_nothing_to_compare(study: Study) -> None:
    study.done("dense", [1.0, 1.0], repeat=0)
    study.done("window", [0.0, 0.0], repeat=1)
    assert sentences(study) == [
        "recall_512: dense has the highest mean, 1.000 ± 0.000. "
        "Too few shared samples or repeats to compare with window."
    ]


def test_models_with_one_config_each_are_compared(study: Study) -> None:
    study.done("dense", [1.0] * 18 + [0.0] * 2, model="a")
    study.done("dense", [0.0] * 18 + [1.0] * 2, model="b")
    assert sentences(study) == [
        "recall_512: a is best, 0.900 ± 0.069; significantly higher than b by "
        "0.800 ± 0.138 (p < 0.001)."
    ]


def test_several_models_and_configs_are_compared_together_and_by_model(study: Study) -> None:
    for subset in ("128", "512"):
        study.done("dense", [1.0] * 20, model="a", subset=subset)
        study.done("window", [0.0] * 20, model="a", subset=subset)
        study.done("dense", [0.5] * 20, model="b", subset=subset)
        study.done("window", [0.5] * 20, model="b", subset=subset)
    assert sentences(study)[1:] == [
        "recall_512: a × dense is best, 1.000 ± 0.000; significantly higher than a × window, "
        "b × dense and b × window, of which b × dense is closest, 0.500 ± 0.000 lower (p < 0.001).",
        "a on recall_128 and recall_512: dense is best; significantly higher than window.",
        "b on recall_128 and recall_512: dense and window have the same mean.",
    ]


def test_the_time_names_stages_and_the_longest(study: Study) -> None:
    study.done("dense", [1, 0])
    study.done("window", [1, 0], subset="128")
    study.done("window", [1, 0], subset="512")
    assert wording.time_spent(study.compared(), plain) == (
        "loading 3.0 s, computing 12 s (last attempts, summed over slots); "
        "window computed longest, 8.0 s."
    )


def test_no_time_is_printed_if_none_was_spent(study: Study) -> None:
    study.cell("dense")
    assert wording.time_spent(study.compared(), plain) == ""


def test_the_legend_explains_only_what_is_shown(study: Study, demo: Study) -> None:
    study.cell("dense")
    whole = wording.legend(demo.compared(), plain)
    assert "dense" in whole
    assert "density" in whole
    assert "speed" in whole
    assert "1 of 2" not in whole
    for page in (
        markdown.render(demo.compared(), title="t"),
        html.render(demo.compared(), title="t"),
    ):
        assert "1 of 2" not in page


def test_the_legend_explains_a_lack_of_repeats(study: Study) -> None:
    study.done("dense", [1, 0], repeat=0)
    study.failed("dense", repeat=1)
    assert wording.legend(study.compared(), plain) == (
        "Mean ± standard error of all repeats. 1 of 2: that many repeats have a result so far."
    )
    lacks = "all repeats; 1 of 2: only so many repeats have a result."
    for page in (
        markdown.render(study.compared(), title="t"),
        html.render(study.compared(), title="t"),
    ):
        assert lacks in page


def test_an_interval_is_written_from_its_lower_to_its_higher_end(demo: Study) -> None:
    places = demo.compared().entry_at
    assert wording.interval(places["tiny-recall", "top_k", "recall_512"], 2) == "−0.04 to +0.01"
    assert wording.interval(places["tiny-recall", "dense", "recall_512"], 2) == ""


def test_the_config_that_leads_most_comes_first_with_how_often_it_is_sure(study: Study) -> None:
    for model, (dense, window) in enumerate([(0, 1), (0, 1), (1, 0)]):
        study.done("dense", [dense] * 30 + [0, 1], model=f"m{model}")
        study.done("window", [window] * 30 + [1, 0], model=f"m{model}")
    assert verdicts.leads(study.compared(), plain) == (
        "window leads 2 of 3, 2 significantly ahead of all others; "
        "dense leads 1 of 3, 1 significantly ahead of all others."
    )


def test_of_many_leaders_the_rest_is_counted(study: Study) -> None:
    for model in range(10):
        study.done(f"c{model}", [1, 0], model=f"m{model}")
    assert verdicts.leads(study.compared(), plain).endswith(
        "c4 leads 1 of 10; 5 more lead the rest."
    )


def test_configs_that_share_the_highest_mean_are_named_together(study: Study) -> None:
    study.done("dense", [1.0] * 20)
    study.done("oracle", [1.0] * 20)
    study.done("window", [0.0] * 20)
    assert sentences(study) == [
        "recall_512: dense and oracle have the highest mean, 1.000 ± 0.000; dense is significantly "
        "higher than window by 1.000 ± 0.000 (p < 0.001)."
    ]


def test_an_untested_difference_has_no_mark(study: Study) -> None:
    study.done("dense", [1.0])
    study.done("window", [0.0])
    comparison = study.compared()
    (entry,) = (entry for entry in comparison.entries if entry.config == "window")
    assert wording.difference(entry, 3) == "−1.000 ± ?"
    assert "± ?: only one value" in wording.legend(comparison, str)
