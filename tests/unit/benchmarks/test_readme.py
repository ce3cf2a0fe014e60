"""The "add one" recipe of the family's README, followed to the letter.

It touches the disk: the package that the recipe makes is laid out in a temporary folder, as an
installer would.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import benchfleet.benchmarks
from benchfleet import registry
from benchfleet.errors import UnknownName

README = Path(benchfleet.benchmarks.__file__).with_name("README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The one fenced block of that language, without the indent of its step."""
    (found,) = re.findall(rf"^   ```{language}\n(.*?)^   ```$", README, re.DOTALL | re.MULTILINE)
    return re.sub("^   ", "", found, flags=re.MULTILINE)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The recipe's module and entry point, as if its package had been installed."""
    (section,) = re.findall(r'^\[project\.entry-points\."(.+)"\]$', block("toml"), re.MULTILINE)
    ((name, place),) = re.findall(r'^(\w+) = "(.+)"$', block("toml"), re.MULTILINE)
    module = place.partition(":")[0]
    (tmp_path / f"{module}.py").write_text(block("python"), encoding="utf-8")
    marks = tmp_path / f"{module}-1.0.dist-info"
    marks.mkdir()
    (marks / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (marks / "entry_points.txt").write_text(f"[{section}]\n{name} = {place}\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry._entry_points.cache_clear()
    yield
    registry._entry_points.cache_clear()
    monkeypatch.delitem(sys.modules, module, raising=False)


def test_the_recipe_has_at_most_six_steps():
    steps = re.findall(r"^(\d+)\. ", README, re.MULTILINE)
    assert steps == [str(number) for number in range(1, len(steps) + 1)]
    assert 1 <= len(steps) <= 6


def test_without_its_package_the_name_is_unknown():
    with pytest.raises(UnknownName, match="no benchmark 'capitals'"):
        registry.load("benchmarks", "capitals")


@pytest.mark.usefixtures("installed")
def test_a_benchmark_made_by_the_recipe_is_found_checked_and_run(session):
    (item,) = yaml.safe_load(block("yaml"))["benchmarks"]
    ((name, said),) = item.items()
    assert name in registry.names("benchmarks")

    subsets = said.pop("subsets")
    benchmark = registry.load("benchmarks", name)(said)
    assert benchmark.params() == {"polite": True}
    assert [benchmark.check_subset(subset) for subset in subsets] == [None]
    assert benchmark.check_subset("europa") == "no subset 'europa'; did you mean 'europe'?"
    assert benchmark.data_digest("europe") == ""

    given = session(lambda p: "Oslo, I say" if "Norway" in p.question else "?", subset="europe")
    score = benchmark.run(given)
    assert score.overall == 0.5
    assert [p.question for p in given.adapter.asked] == [
        "Please name the capital of France:",
        "Please name the capital of Norway:",
    ]


@pytest.mark.usefixtures("installed")
def test_a_benchmark_made_by_the_recipe_runs_whole_and_refuses_what_it_does_not_take(session):
    made = registry.load("benchmarks", "capitals")
    assert made({}).run(session(lambda p: "Nairobi")).per_sample == [1.0, 0.0, 0.0]
    with pytest.raises(ValueError, match=r"no parameter 'polit'; did you mean 'polite'\?"):
        made({"polit": True})
