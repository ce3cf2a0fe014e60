"""The page on own scripts says what is: its tables and its example are read from the text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import benchfleet
from benchfleet.benchmarks.command import Command
from benchfleet.benchmarks.python import Python
from benchfleet.benchmarks.template_fields import FIELDS

PAGE = Path(benchfleet.__file__).parents[2] / "docs" / "own-scripts.md"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def _part(page: str, title: str) -> str:
    return page.split(f"\n## {title}")[1].split("\n## ")[0]


@pytest.mark.parametrize(("title", "kind"), [("A script", Command), ("A function", Python)])
def test_each_parameter_has_its_row(
    page: str, title: str, kind: type[Command] | type[Python]
) -> None:
    example = {"name": "x", "argv": ["x"]} if kind is Command else {"name": "x", "call": "m:x"}
    made = kind(example)
    rows = re.findall(r"^\| `(\w+)` \|", _part(page, title), re.MULTILINE)
    others = {"experiment", "config", "output", "inputs", "outputs"} if kind is Command else set()
    others |= {"identity", "aggregate"}
    assert sorted(rows) == sorted({*made.params(), *made.outside(), *others} - {"folder"})


def test_each_field_has_its_place(page: str) -> None:
    table = _part(page, "A script")
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `{")]
    assert sorted(re.findall(r"{(\w+)}", "".join(first))) == sorted(FIELDS)


def test_the_examples_are_taken(page: str) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (campaign,) = yaml.safe_load(blocks[0])["matrix"]["benchmarks"]
    settings = dict(campaign["command"])
    assert settings.pop("subsets") == ["easy", "hard"]
    assert Command(settings).name == "my-eval"
    for item in yaml.safe_load(blocks[1]):
        item["python"].pop("subsets", None)
        assert Python(item["python"]).name in {"my-bench", "capitals"}
