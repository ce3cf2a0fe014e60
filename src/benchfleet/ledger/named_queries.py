"""Named SQL statements in .sql files, and how a database runs one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Protocol


class QueryResult(Protocol):
    """The answer of a statement, row by row."""

    @property
    def lastrowid(self) -> int | None: ...

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Execute(Protocol):
    """Runs one statement by its name."""

    def __call__(self, name: str, /, **values: Any) -> QueryResult: ...


def parse_queries(text: str) -> dict[str, str]:
    """The statements of a .sql file, by the name in the ``-- name:`` line above each. Raises
    ValueError where two have the same."""
    queries: dict[str, str] = {}
    for part in text.split("\n-- name: ")[1:]:
        name, _, statement = part.partition("\n")
        if name in queries:
            raise ValueError(f"two statements are named {name!r}")
        queries[name] = statement.strip()
    return queries


@cache
def load_queries(file: Path) -> dict[str, str]:
    """The named statements of a file."""
    return parse_queries(file.read_text(encoding="utf-8"))
