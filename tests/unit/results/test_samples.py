"""Samples as they were recorded line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.results.samples import sample_lines

WHOLE = b'{"index": 0, "id": "a"}\n{"index": 1, "id": "b"}\n'


@pytest.mark.parametrize(
    ("torn", "expected"),
    [
        (b"", [0, 1]),
        (b'{"index": 2, "id', [0, 1]),
        (b"\n\n", [0, 1]),
        (b'{"index": "x"}\n[1\n2]\n{"index": 3}\n', [0, 1, 3]),
        (b'\x00\x00\x00\n{"index": 4}\n', [0, 1, 4]),
    ],
)
def test_a_torn_line_leaves_the_others(tmp_path: Path, torn: bytes, expected: list[int]) -> None:
    file = tmp_path / "samples.jsonl"
    file.write_bytes(WHOLE + torn)
    assert [record["index"] for record in sample_lines(file)] == expected


def test_two_lines_that_are_json_together_alone_are_none(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    file.write_bytes(b'[{"index": 0}\n{"index": 1}]\n')
    assert list(sample_lines(file)) == []
