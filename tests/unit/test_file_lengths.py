"""No file of code is longer than a reader keeps in mind."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_LINES = 300


def test_no_file_of_code_has_more_than_300_lines() -> None:
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_bytes().splitlines())
        for folder in ("src", "tests", "tools", "perf", "examples")
        for file in (ROOT / folder).rglob("*.py")
    }
    assert len(lengths) > 1000
    assert not {name: lines for name, lines in lengths.items() if lines > MAX_LINES}
