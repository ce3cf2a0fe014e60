"""The statements, their names, the schema they run on, and the indexes they use."""

from __future__ import annotations

import re
import sqlite3
from importlib.resources import files

import pytest

from benchfleet.ledger.sql import migrations, named_statements, read_statements
from benchfleet.ledger.sqlite.file import migrate
from benchfleet.ledger.sqlite.ledger import TEMPORARY

STATEMENTS = read_statements("sqlite")


@pytest.fixture
def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, migrations("sqlite"))
    for name in TEMPORARY:
        connection.execute(STATEMENTS[name])
    return connection


def plan(database: sqlite3.Connection, name: str) -> str:
    statement = STATEMENTS[name]
    values = dict.fromkeys(re.findall(r":(\w+)", statement), "[]")
    rows = database.execute(f"explain query plan {statement}", values).fetchall()
    return "\n".join(re.sub(r"TABLE |temp\.", "", row[3]) for row in rows)


def test_statements_are_found_by_the_name_above_them() -> None:
    text = "-- A file.\n\n-- name: one\n-- Why.\nselect 1;\n\n-- name: two\nselect\n  2;\n"
    assert named_statements(text) == {"one": "-- Why.\nselect 1;", "two": "select\n  2;"}


def test_two_statements_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two statements are named 'one'"):
        named_statements("\n-- name: one\nselect 1;\n-- name: one\nselect 2;")


def test_every_statement_is_used_and_every_one_used_is_there() -> None:
    package = files("benchfleet.ledger")
    files_of = (
        "sql.py",
        "entering.py",
        *(f"sqlite/{n}.py" for n in ("ledger", "chosen_table", "ahead")),
    )
    code = "".join(package.joinpath(name).read_text() for name in files_of)
    called = set(re.findall(r'\b_?(?:do|each|partial)\(\s*(?:do, )?"(\w+)"', code))
    called |= {"wake", "chosen_wake", *TEMPORARY}
    assert set(STATEMENTS) == called


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - set(TEMPORARY)))
def test_every_statement_fits_the_schema(database: sqlite3.Connection, name: str) -> None:
    plan(database, name)  # SQLite compiles it, so that every table and column is there


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("known", "sqlite_autoindex_cell_1 (fingerprint=?)"),
        ("held", "sqlite_autoindex_cell_1 (fingerprint=?)"),
        ("paths_near", "sqlite_autoindex_cell_2 (path=?)"),
        ("paths_near", "sqlite_autoindex_cell_2 (path>? AND path<?)"),
        ("wake", "cell_backing_off (ready>? AND ready<?)"),
        ("heads", "cell_claimable (lane=?)"),
        ("of_lane", "cell_claimable (lane=?)"),
        ("chosen_heads", "chosen_claimable (choice=? AND lane=?)"),
        ("chosen_heads", "SEARCH head USING PRIMARY KEY (ordinal=? AND choice=?)"),
        ("chosen_of_lane", "chosen_claimable (choice=? AND lane=?)"),
        ("expired", "cell_running (expires<?)"),
        ("next_due", "SEARCH cell USING INDEX cell_backing_off (ready>?)"),
        ("next_due", "SEARCH chosen USING COVERING INDEX chosen_backing_off (ready>?)"),
        ("begun", "SEARCH chosen USING PRIMARY KEY (ordinal=?)"),
        ("happened", "SEARCH event USING INTEGER PRIMARY KEY (rowid>?)"),
        ("leave_out", "SEARCH chosen USING PRIMARY KEY (ordinal=?)"),
        ("leave_out_of", "SEARCH chosen USING PRIMARY KEY (ordinal=? AND choice=?)"),
        ("choose", "sqlite_autoindex_cell_1 (fingerprint=?)"),
        ("chosen_wake", "chosen_backing_off (ready>? AND ready<?)"),
        ("cells_among", "sqlite_autoindex_cell_1 (fingerprint=?)"),
        ("events", "SEARCH event USING INTEGER PRIMARY KEY (rowid>?)"),
    ],
)
def test_what_runs_often_is_a_look_up(database: sqlite3.Connection, name: str, index: str) -> None:
    steps = plan(database, name)
    assert index in steps
    assert not re.search(r"SCAN (cell|head|event|chosen)\b", steps)


def test_migrations_are_numbered_without_a_gap() -> None:
    names = sorted(
        f.name for f in files("benchfleet.ledger").joinpath("migrations/sqlite").iterdir()
    )
    assert [name[:5] for name in names] == [f"{n:04}_" for n in range(1, len(names) + 1)]
    assert len(migrations("sqlite")) == len(names)


def test_an_older_schema_is_brought_up_script_by_script() -> None:
    first = "create table meta (key text primary key, value text);\ncreate table a (x);"
    second = "alter table a add column y;\n-- A comment; with a semicolon.\ncreate table b (z);"
    database = sqlite3.connect(":memory:", isolation_level=None)
    migrate(database, [first])
    database.execute("insert into a values (1)")
    migrate(database, [first, second])
    migrate(database, [first, second])
    assert database.execute("select * from a").fetchall() == [(1, None)]
    assert database.execute("select value from meta").fetchall() == [("2",)]


def test_a_migration_that_fails_leaves_the_schema_as_it_was() -> None:
    first = "create table meta (key text primary key, value text);"
    database = sqlite3.connect(":memory:", isolation_level=None)
    migrate(database, [first])
    with pytest.raises(sqlite3.OperationalError, match="no such table: missing"):
        migrate(database, [first, "create table b (z);\ninsert into missing values (1);"])
    assert database.execute("select name from sqlite_master where type = 'table'").fetchall() == [
        ("meta",)
    ]
    assert database.execute("select value from meta").fetchall() == [("1",)]
