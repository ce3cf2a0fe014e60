from __future__ import annotations

import pytest

from benchfleet.campaign.rules import Axes, read_exclude, read_include
from benchfleet.domain.matrix import Include, Rule

from .reading import mistakes_of, read

AXES = Axes(
    models=["tiny", "r1-32b"],
    configs=["dense", "top-10%", "a[1]"],
    workloads=[("recall", "512"), ("recall", "1024"), ("mock_benchmark", "")],
    hardware=[],
    repeats=2,
)


def test_a_rule_names_axes_by_name_glob_list_or_number() -> None:
    entry = read(
        """\
        - {models: r1-32b, configs: "!dense"}
        - {benchmarks: rec*, subsets: [512, "1024"], repeats: 1}
        - {configs: "a[1]"}
        """
    )
    assert read_exclude(entry, AXES) == (
        Rule(models=("r1-32b",), configs=("!dense",)),
        Rule(benchmarks=("rec*",), subsets=("512", "1024"), repeats=("1",)),
        Rule(configs=("a[1]",)),
    )
    assert mistakes_of(entry) == {}


def test_a_single_rule_needs_no_list() -> None:
    assert read_exclude(read("{models: tiny}"), AXES) == (Rule(models=("tiny",)),)


def test_no_rules_are_no_mistake() -> None:
    entry = read("~")
    assert read_exclude(entry, AXES) == ()
    assert read_include(entry, AXES) == ()
    assert mistakes_of(entry) == {}


def test_an_include_may_say_its_repeats() -> None:
    entry = read("[{models: tiny, repeats: 5}, {models: tiny}]")
    assert read_include(entry, AXES) == (
        Include(rule=Rule(models=("tiny",)), repeats=5),
        Include(rule=Rule(models=("tiny",)), repeats=2),
    )
    assert mistakes_of(entry) == {}


@pytest.mark.parametrize(
    ("rule", "key", "message"),
    [
        ("{models: tony}", "[0].models", "no model 'tony' in this matrix; did you mean 'tiny'?"),
        ("{models: [tiny, x]}", "[0].models", "no model 'x' in this matrix; there are tiny, r1"),
        ("{configs: '!dens'}", "[0].configs", "no config 'dens' in this matrix; did you mean"),
        ("{benchmarks: 'z*'}", "[0].benchmarks", "no benchmark 'z*' in this matrix"),
        ("{subsets: 513}", "[0].subsets", "no subset '513' in this matrix; did you mean '512'"),
        ("{repeats: 2}", "[0].repeats", "no repeat '2' in this matrix; there are 0, 1"),
        ("{model: tiny}", "[0].model", "no key 'model' here; did you mean 'models'?"),
        ("{models: true}", "[0].models", "must be text, not true"),
        ("{}", "[0]", "names no axis; a rule speaks of models, configs"),
        ("{models: []}", "[0]", "names no axis"),
        ("{benchmarks: mock_benchmark, subsets: 512}", "[0]", "matches no cell"),
        ("{models: [tiny, '!tiny']}", "[0]", "matches no cell"),
        ("tiny", "[0]", "must be a mapping of models, configs, benchmarks, …, not 'tiny'"),
        ("null", "[0]", "is empty"),
    ],
)
def test_a_rule_that_can_match_nothing_is_reported_at_its_key(
    rule: str, key: str, message: str
) -> None:
    entry = read(f"- {rule}")
    read_exclude(entry, AXES)
    found = mistakes_of(entry)
    assert list(found) == [key]
    assert found[key].startswith(message)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{models: tiny, repeats: 0}", "must be a whole number, 1 or more, not 0"),
        ("{models: tiny, repeats: '!1'}", "must be a whole number, 1 or more, not '!1'"),
        ("{models: tiny, repeats: [1]}", "must be a whole number, 1 or more, not a list"),
    ],
)
def test_an_includes_repeats_are_a_count(rule: str, message: str) -> None:
    entry = read(f"- {rule}")
    read_include(entry, AXES)
    assert mistakes_of(entry) == {"[0].repeats": message}
