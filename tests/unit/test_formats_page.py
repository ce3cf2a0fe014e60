"""The page on formats names each number that the code writes, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import benchfleet
from benchfleet.engines import frames
from benchfleet.ledger.git import log
from benchfleet.ledger.postgres import schema
from benchfleet.ledger.sqlite import file
from benchfleet.machines.probe import report
from benchfleet.results import layout
from benchfleet.runs import registry

PACKAGE = Path(benchfleet.__file__).parent
PAGE = (PACKAGE.parents[1] / "docs" / "formats.md").read_text("utf-8")
NUMBERS = {
    "results of a cell": layout.FORMAT,
    "SQLite ledger": file.SCHEMA,
    "PostgreSQL ledger": schema.SCHEMA,
    "git ledger": log.FORMAT,
    "record of a run": registry.FORMAT,
    "capability report": report.REPORT_VERSION,
    "frames between runner and slot": frames.PROTOCOL,
}
ELSEWHERE = {  # numbers of others, of one version alone, and a time limit
    "__init__.py",
    "exporters/every_eval_ever.py",
    "machines/checkup.py",
    "machines/facts.py",
}


def _section(heading: str) -> list[list[str]]:
    (text,) = re.findall(rf"^## {heading}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows]


def test_each_number_is_the_one_in_the_code() -> None:
    rows = {name: number for name, number, *_ in _section("Numbers")[1:]}
    assert rows == {name: str(number) for name, number in NUMBERS.items()}


@pytest.mark.slow
def test_the_page_knows_each_module_with_a_number_of_a_format() -> None:
    found = set()
    for module in PACKAGE.rglob("*.py"):
        for node in ast.parse(module.read_text("utf-8")).body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                    is_number = re.fullmatch(r"[\d.]+", str(value))
                    if is_number and re.search(r"FORMAT|SCHEMA|VERSION|PROTOCOL", name.upper()):
                        found.add(module.relative_to(PACKAGE).as_posix())
    assert found - ELSEWHERE == {
        "engines/frames.py",
        "ledger/git/log.py",
        "ledger/postgres/schema.py",
        "ledger/sqlite/file.py",
        "machines/probe/report.py",
        "results/layout.py",
        "runs/registry.py",
    }


def test_the_schema_of_sqlite_enters_its_own_number() -> None:
    script = (PACKAGE / "ledger" / "sqlite" / "schema.sql").read_text("utf-8")
    assert f"('schema', '{file.SCHEMA}')" in script


def test_each_file_that_a_result_must_have_is_explained() -> None:
    named = {row[0] for row in _section("Files of a result")}
    assert {f"`{name}`" for name in layout.REQUIRED_FILES} <= named
