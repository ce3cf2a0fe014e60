"""The container file copies what the package is built from, and its build may see that."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_what_the_container_file_copies_is_there_and_not_ignored() -> None:
    text = (ROOT / "Containerfile").read_text("utf-8")
    copied = {name for line in re.findall(r"^COPY (.+)", text, re.M) for name in line.split()[:-1]}
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert ignored[0] == "*"
    assert copied == {line[1:] for line in ignored if line.startswith("!")}
    assert all((ROOT / name).exists() for name in copied)
