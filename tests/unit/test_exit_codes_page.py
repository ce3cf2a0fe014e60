"""The page on exit codes names each code of the command line, and each verb that ends with 1."""

from __future__ import annotations

import re
from pathlib import Path

import benchfleet
from benchfleet.cli.main import _EXIT_CODES, _MODULES, VERBS

PACKAGE = Path(benchfleet.__file__).parent
PAGE = (PACKAGE.parents[1] / "docs" / "exit-codes.md").read_text("utf-8")


def _rows(heading: str) -> list[str]:
    (table,) = re.findall(rf"^\| {heading} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [row.strip("|").split("|")[0].strip() for row in table.splitlines()]


def test_each_code_of_the_help_has_a_row() -> None:
    codes = set(re.findall(r"\b(\d+) [a-z]", _EXIT_CODES))
    assert codes == {"0", "1", "2", "3", "130"}
    assert codes | {"141"} == set(_rows("code"))


def test_each_verb_that_may_end_with_1_has_one_row() -> None:
    listed = [verb for row in _rows("verb") for verb in re.findall(r"`([\w-]+)`", row)]
    assert len(listed) == len(set(listed))
    assert set(listed) <= set(VERBS)
    for verb in VERBS:
        name = _MODULES.get(verb, verb).replace("-", "_")
        modules = (PACKAGE / "cli" / "verbs").glob(f"{name}*.py")
        sources = [one.read_text("utf-8") for one in modules if one.stem in (name, f"{name}_check")]
        if any(re.search(r"return 1\b|\belse 1\b", source) for source in sources):
            assert verb in listed, verb
