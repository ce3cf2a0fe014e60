"""The statements, their names, the schema they run on, and the indexes they use."""

from __future__ import annotations

import re
import sqlite3
from importlib.resources import files

import pytest

from benchfleet.ledger.named_queries import load_queries, parse_queries
from benchfleet.ledger.sqlite.file import QUERIES, create_schema

STATEMENTS = load_queries(QUERIES)


@pytest.fixture
def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_schema(connection, "study")
    return connection


def plan(database: sqlite3.Connection, name: str) -> str:
    statement = STATEMENTS[name]
    values = dict.fromkeys(re.findall(r":(\w+)", statement), "[]")
    rows = database.execute(f"explain query plan {statement}", values).fetchall()
    return "\n".join(re.sub(r"TABLE |temp\.", "", row[3]) for row in rows)


def test_statements_are_found_by_the_name_above_them() -> None:
    text = "-- A file.\n\n-- name: one\n-- Why.\nselect 1;\n\n-- name: two\nselect\n  2;\n"
    assert parse_queries(text) == {"one": "-- Why.\nselect 1;", "two": "select\n  2;"}


def test_two_statements_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two statements are named 'one'"):
        parse_queries("\n-- name: one\nselect 1;\n-- name: one\nselect 2;")


def test_every_statement_is_used_and_every_one_used_is_there() -> None:
    package = files("benchfleet.ledger")
    names = ("base", "enrolment", "ledger")
    code = "".join(package.joinpath(f"sqlite/{name}.py").read_text() for name in names)
    called = set(re.findall(r'\b_?(?:execute|each)\(\s*"(\w+)"', code))
    assert set(STATEMENTS) == called - {"begin", "commit", "rollback"}


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_every_statement_fits_the_schema(database: sqlite3.Connection, name: str) -> None:
    plan(database, name)  # SQLite compiles it, so that every table and column is there


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("enrolled_cells", "sqlite_autoindex_cell_1 (fingerprint=?)"),
        ("claimable", "sqlite_autoindex_cell_1 (fingerprint=?)"),
        ("cell_state", "sqlite_autoindex_cell_1 (fingerprint=?)"),
        ("conflicting_paths", "sqlite_autoindex_cell_2 (path=?)"),
        ("conflicting_paths", "sqlite_autoindex_cell_2 (path>? AND path<?)"),
        ("expired", "cell_running (expires<?)"),
        ("cells_of", "sqlite_autoindex_cell_1 (fingerprint=?)"),
        ("events", "SEARCH event USING INTEGER PRIMARY KEY (rowid>?)"),
    ],
)
def test_what_runs_often_is_a_look_up(database: sqlite3.Connection, name: str, index: str) -> None:
    steps = plan(database, name)
    assert index in steps
    assert not re.search(r"SCAN (cell|event|selected)\b", steps)
