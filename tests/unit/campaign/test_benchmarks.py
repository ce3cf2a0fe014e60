from __future__ import annotations

import pytest

from benchfleet.benchmarks.mock_benchmark import MockBenchmark
from benchfleet.benchmarks.recall import Recall
from benchfleet.campaign.benchmarks import DeclaredWorkload, read_benchmarks
from benchfleet.campaign.defaults import read_defaults
from benchfleet.domain.cell import Workload

from .reading import mistakes_of, mock_defaults, read


def _read(text: str, defaults: str = "~") -> list[tuple[DeclaredWorkload, Workload]]:
    """The workloads of a text in which nothing is wrong."""
    entry = read(text)
    found = read_benchmarks(entry, read_defaults(read(defaults)))
    assert mistakes_of(entry) == {}
    return [(declared, declared.workload) for declared in found if declared.workload]


@pytest.mark.parametrize("item", ["mock_benchmark", "{mock_benchmark: null}", "mock_benchmark:"])
def test_a_name_alone_is_the_whole_benchmark_with_its_defaults(item: str) -> None:
    ((_, work),) = _read(f"- {item}")
    assert work == Workload(
        benchmark="mock_benchmark",
        version=MockBenchmark.version,
        params=MockBenchmark({}).params(),
        generation=MockBenchmark.default_generation,
    )


@pytest.mark.parametrize(
    ("subsets", "names"),
    [
        ("[128, 512]", ["128", "512"]),
        ("{subsets: [128, '512']}", ["128", "512"]),
        ("512", ["512"]),
        ("'512'", ["512"]),
        ("{subsets: 512}", ["512"]),
    ],
)
def test_each_subset_is_a_workload_and_may_be_a_number(subsets: str, names: list[str]) -> None:
    found = _read(f"- recall: {subsets}")
    assert [work.subset for _, work in found] == names
    assert [declared.subset for declared, _ in found] == names


def test_settings_and_the_benchmarks_own_parameters_stand_side_by_side() -> None:
    ((_, work),) = _read(
        """\
        - recall:
            subsets: [512]
            generation: {max_new_tokens: 2}
            batch_size: 4
            limit: 20
            samples: 40
        """
    )
    assert work.params == Recall({"samples": 40}).params()
    assert (work.batch_size, work.limit) == (4, 20)
    assert work.generation == {**Recall.default_generation, "max_new_tokens": 2}


def test_generation_is_the_benchmarks_word_over_the_defaults_over_its_own_defaults() -> None:
    ((declared, work),) = _read(
        "- mock_benchmark: {generation: {top_p: 0.9}}",
        "{generation: {max_new_tokens: 99, top_p: 0.5, seed: 1}, batch_size: 2}",
    )
    assert work.generation == {"temperature": 0, "max_new_tokens": 99, "seed": 1, "top_p": 0.9}
    assert work.batch_size == 2
    assert declared.own == {"top_p": 0.9}


@pytest.mark.parametrize(
    ("item", "key", "message"),
    [
        ("mock_benchmrk", "[0]", "no benchmark 'mock_benchmrk'; did you mean 'mock_benchmark'?"),
        ("recal: [512]", "[0].recal", "no benchmark 'recal'; did you mean 'recall'?"),
        ("recall: [12]", "[0].recall", "a text of 12 characters is too short"),
        ("recall: [512, cot]", "[0].recall", "a subset is the text's length"),
        ("mock_benchmark: [a]", "[0].mock_benchmark", "this benchmark has no subsets"),
        ("recall: []", "[0].recall", "names no subset; remove the empty list"),
        ("recall: {subsets: []}", "[0].recall.subsets", "names no subset; remove the empty"),
        ("recall: [true]", "[0].recall[0]", "must be text, not true"),
        ("recall: {sampls: 4}", "[0].recall", "no parameter 'sampls'; did you mean 'samples'?"),
        ("recall: {batch_size: 0}", "[0].recall.batch_size", "must be a whole number, 1 or more"),
        ("recall: {generation: 3}", "[0].recall.generation", "must be a mapping"),
        ("recall: {repeats: 3}", "[0].recall.repeats", "belongs in 'defaults', or in an include"),
        ("{recall: [512], generation: {}}", "[0]", "holds 2 names; indent 'generation' below"),
        ("{}", "[0]", "names no benchmark"),
        ("7", "[0]", "must be a name, or a name with its subsets"),
        ("null", "[0]", "is empty"),
    ],
)
def test_what_is_wrong_with_a_benchmark_is_reported_at_its_key(
    item: str, key: str, message: str
) -> None:
    entry = read(f"- {item}")
    read_benchmarks(entry, mock_defaults())
    found = mistakes_of(entry)
    assert list(found) == [key]
    assert found[key].startswith(message)


def test_a_misspelt_setting_is_reported_as_such() -> None:
    entry = read("- recall: {subset: [512]}")
    read_benchmarks(entry, mock_defaults())
    assert mistakes_of(entry)["[0].recall"].endswith("(or is it 'subsets' that you mean?)")


def test_a_wrong_subset_shows_its_own_line() -> None:
    entry = read("- recall:\n  - 512\n  - 12\n")
    declared = read_benchmarks(entry, mock_defaults())
    (mistake,) = entry.mistakes.listed()
    assert (mistake.key, mistake.line) == ("[0].recall", 3)
    assert [one.workload is None for one in declared] == [False, True]


def test_names_of_an_unknown_benchmark_are_kept_for_the_rules() -> None:
    declared = read_benchmarks(read("- recal: [128, 512]"), mock_defaults())
    assert [(one.benchmark, one.subset, one.workload) for one in declared] == [
        ("recal", "128", None),
        ("recal", "512", None),
    ]


def test_every_wrong_parameter_and_a_wrong_subset_of_one_benchmark_are_reported() -> None:
    top = read("[{recall: {subsets: [12x, 128], samples: x, bogus: 3, depths: [2]}}]")
    read_benchmarks(top, mock_defaults())
    messages = [mistake.message for mistake in top.mistakes.listed()]
    assert len(messages) == 4
    for part in ("no parameter 'bogus'", "samples must be", "each of depths", "not '12x'"):
        assert any(part in message for message in messages), (part, messages)
