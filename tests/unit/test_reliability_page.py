"""The page on reliability names tests that there are, one at least for each fault."""

from __future__ import annotations

import re
from pathlib import Path

import benchfleet

ROOT = Path(benchfleet.__file__).parents[2]


def test_each_fault_has_a_promise_and_a_test_that_is_there() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    faults = [row for row in rows if row[0].strip() != "fault"]
    assert len(faults) > 30
    files = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("src/benchfleet/testing/**/*.py")]
    there = set(re.findall(r"def (test_\w+)", "\n".join(f.read_text("utf-8") for f in files)))
    for fault, promise, tests in faults:
        assert fault.strip()
        assert promise.strip()
        named = re.findall(r"`(\w+)`", tests)
        assert named, f"{fault} has no test"
        assert not set(named) - there, f"{fault} names what is not there"
