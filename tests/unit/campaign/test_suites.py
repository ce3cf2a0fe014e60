"""Suites in a campaign file: their parts, their means, and what is wrong with them."""

from __future__ import annotations

import pytest

from benchfleet.campaign.suites import read_suites
from benchfleet.domain.cell import Workload
from benchfleet.domain.suite import Part, Suite

from .reading import mistakes_of, read

WORKLOADS = [
    Workload(benchmark="recall", version="1", subset="512"),
    Workload(benchmark="recall", version="1", subset="1024"),
    Workload(benchmark="gsm8k", version="1"),
    Workload(benchmark="command", version="1", called="my-eval"),
]


def test_a_part_is_a_benchmark_with_its_subsets_or_one_of_them() -> None:
    entry = read(
        """\
        all: {benchmarks: [recall, gsm8k, my-*]}
        short: {benchmarks: [recall_512, gsm8k], mean: micro}
        """
    )
    assert read_suites(entry, WORKLOADS) == (
        Suite(
            name="all",
            parts=(
                Part(name="recall", workloads=("recall_512", "recall_1024")),
                Part(name="gsm8k", workloads=("gsm8k",)),
                Part(name="my-*", workloads=("my-eval",)),
            ),
        ),
        Suite(
            name="short",
            mean="micro",
            parts=(
                Part(name="recall_512", workloads=("recall_512",)),
                Part(name="gsm8k", workloads=("gsm8k",)),
            ),
        ),
    )
    assert mistakes_of(entry) == {}


@pytest.mark.parametrize("mean", ["", ", mean: weights"])
def test_weights_stand_beside_the_names(mean: str) -> None:
    entry = read(f"core: {{benchmarks: {{recall: 3, gsm8k: 0.5}}{mean}}}")
    (suite,) = read_suites(entry, WORKLOADS)
    assert suite.mean == "weights"
    assert [part.weight for part in suite.parts] == [3.0, 0.5]
    assert suite.weights({}) == {
        "recall_512": pytest.approx(3 / 7),
        "recall_1024": pytest.approx(3 / 7),
        "gsm8k": pytest.approx(1 / 7),
    }


def test_a_suite_is_read_back_from_its_values() -> None:
    (suite,) = read_suites(read("core: {benchmarks: {recall: 3, gsm8k: 0.5}}"), WORKLOADS)
    assert Suite.from_dict(suite.to_dict()) == suite


@pytest.mark.parametrize(
    ("suites", "key", "message"),
    [
        ("{core: {benchmarks: [gsm9k]}}", "core.benchmarks[0]", "did you mean 'gsm8k'?"),
        ("{core: {benchmarks: []}}", "core.benchmarks", "names no benchmark"),
        ("{core: {mean: macro}}", "core.benchmarks", "is missing; name the benchmarks"),
        ("{core: {benchmarks: [gsm8k], mean: mikro}}", "core.mean", "did you mean 'micro' or"),
        ("{core: {benchmarks: [gsm8k], mean: weights}}", "core.mean", "names no weights"),
        ("{core: {benchmarks: {gsm8k: 2}, mean: macro}}", "core.mean", "names weights"),
        ("{core: {benchmarks: {gsm8k: 0}}}", "core.benchmarks.gsm8k", "invalid weight 0"),
        ("{core: {benchmarks: [recall, recall_512]}}", "core.benchmarks[1]", "in 'recall' too"),
        ("{gsm8k: {benchmarks: [recall]}}", "gsm8k", "is a benchmark too"),
        ("{core: {benchmark: [recall]}}", "core.benchmark", "did you mean 'benchmarks'?"),
        ("[core]", "", "must be a mapping of suites"),
    ],
)
def test_what_is_wrong_is_named(suites: str, key: str, message: str) -> None:
    entry = read(suites)
    read_suites(entry, WORKLOADS)
    assert message in mistakes_of(entry)[key]
