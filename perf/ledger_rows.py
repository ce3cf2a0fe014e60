"""Ledgers and plain tables of so many cells, for what is measured in them."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from benchfleet.domain.attempt import Outcome
from benchfleet.ledger.copying import Tables
from benchfleet.ledger.postgres.ledger import PostgresLedger
from benchfleet.ledger.rows import CellTexts
from benchfleet.testing import sample_cell

if TYPE_CHECKING:
    from postgres import Postgres

SMALL, LARGE = 10_000, 1_000_000  # rows
MODELS, PRIORITIES = 10, 5
ENDED = Outcome(
    state="success",
    digest=hashlib.sha256(b"").hexdigest(),
    metrics={"accuracy": 0.5},
    seconds={"load": 1.0, "benchmark": 2.0},
    host="lab",
    device="gpu:0",
)


def names(numbers: Iterable[int]) -> Iterator[str]:
    return (hashlib.sha256(str(number).encode()).hexdigest() for number in numbers)


def filled(rows: int) -> Tables:
    """A ledger of so many cells; of a large one every other has ended."""
    texts, samples = CellTexts(), [sample_cell(model=f"model-{n}") for n in range(MODELS)]
    specs = [(texts.spec(cell), texts.terms(cell)) for cell in samples]

    def cells() -> Iterator[Sequence[Any]]:
        for ordinal, name in enumerate(names(range(1, rows + 1)), start=1):
            state = "success" if rows > SMALL and ordinal % 2 else "pending"
            lane, priority = ordinal % MODELS + 1, ordinal * 7919 % PRIORITIES
            path = f"model-{lane}/dense/benchmark/r{ordinal}"
            yield (
                *(ordinal, name, path, path, lane, priority, state),
                *(None, 0, 0, 0, 0, "", None, None),
            )

    yield "lane", ((n + 1, cell.model.load_key, 0, 0) for n, cell in enumerate(samples))
    yield "cell", cells()
    yield "spec", ((ordinal, *specs[ordinal % MODELS]) for ordinal in range(1, rows + 1))


def raw_rows(rows: int) -> Iterator[tuple[int, int, int, str]]:
    for n in range(rows):
        yield n, n * 7919 % PRIORITIES, 2 if rows > SMALL and n % 2 else 0, f"m{n % 50}/b{n % 11}"


def fill_raw_postgres(server: Postgres, table: str, rows: int) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"drop table if exists {table}")  # type: ignore[arg-type]
        connection.execute(
            f"create table {table} (id bigint primary key, prio int not null,"  # type: ignore[arg-type]
            " state smallint not null, spec text not null, token bigint, lease timestamptz)"
            " with (fillfactor = 80)"
        )
        into = f"copy {table} (id, prio, state, spec) from stdin"
        with connection.cursor() as cursor, cursor.copy(into) as copy:  # type: ignore[arg-type]
            for row in raw_rows(rows):
                copy.write_row(row)
        connection.execute(f"create index on {table} (prio, id) where state = 0")  # type: ignore[arg-type]
        connection.execute(f"vacuum analyze {table}")  # type: ignore[arg-type]


def fill_raw_sqlite(file: Path, rows: int) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("pragma journal_mode = wal")
        database.execute(
            "create table cell (id integer primary key, prio int not null, state int not null,"
            " spec text not null, token int, lease real)"
        )
        database.execute("begin")
        database.executemany(
            "insert into cell (id, prio, state, spec) values (?, ?, ?, ?)", raw_rows(rows)
        )
        database.execute("commit")
        database.execute("create index pending on cell (prio, id) where state = 0")
        database.execute("pragma wal_checkpoint(truncate)")


def fill_postgres(server: Postgres, campaign: str, rows: int) -> None:
    with closing(PostgresLedger(server.url(), campaign=campaign)) as ledger:
        server.sql(f"drop schema {ledger.schema} cascade")
    with closing(PostgresLedger(server.url(), campaign=campaign)) as ledger:
        ledger.fill(filled(rows))
        server.sql("vacuum analyze")


def fill_by_sql(server: Postgres, campaign: str, rows: int) -> str:
    """A ledger of so many cells, every other of which has ended, made by the server; its schema."""
    with closing(PostgresLedger(server.url(), campaign=campaign)) as ledger:
        schema = ledger.schema
    texts, values = CellTexts(), list[str]()
    for number in range(MODELS):
        cell = sample_cell(model=f"model-{number}")
        row = (cell.model.load_key, texts.spec(cell), texts.terms(cell))
        values.append(f"({number}, {', '.join(map(_quoted, row))})")
    server.sql(
        f"set search_path to {schema};"  # noqa: S608
        " create temporary table model (number bigint, load_key text, spec text, terms text);"
        f" insert into model values {', '.join(values)};"
        " insert into lane select number + 1, load_key, 0, 0 from model;"
        " insert into cell (ordinal, lane, priority, state)"
        f" select n, n % {MODELS} + 1, n * 7919 % {PRIORITIES},"
        "  case n % 2 when 1 then 'success' else 'pending' end"
        f" from generate_series(1::bigint, {rows}) as n;"
        " insert into identity select n, encode(sha256(n::text::bytea), 'hex'),"
        f" 'model/dense/benchmark/r' || n, 'model/dense/benchmark/r' || n"
        f" from generate_series(1, {rows}) as n;"
        " insert into spec select n, model.spec, model.terms"
        f" from generate_series(1, {rows}) as n join model on number = n % {MODELS};"
    )
    return schema


def age(server: Postgres, schema: str, cells: int, attempts: int) -> None:
    """So many attempts of the cells that ended, the last of which ended well."""
    outcome = _quoted(json.dumps(ENDED.to_dict()))
    last = f"2 * ({attempts - 1} * {cells} + ordinal)"
    server.sql(
        f"set search_path to {schema};"  # noqa: S608
        f" update cell set attempt = {attempts}, token = {attempts}, ended_token = {attempts},"
        f" tries = {attempts - 1}, last = {last}, before = {last} - 2 * {cells}"
        " where ordinal % 2 = 1;"
        " insert into ended (number, seq, at, ordinal, attempt, token, runner, claim_seq,"
        "  claimed_at, before, outcome)"
        f" select 2 * ((nth - 1) * {cells} + ordinal), 2 * ((nth - 1) * {cells} + ordinal),"
        "  nth, ordinal, nth, nth, 'perf',"
        f"  2 * ((nth - 1) * {cells} + ordinal) - 1, nth,"
        f"  case when nth > 1 then 2 * ((nth - 2) * {cells} + ordinal) end, {outcome}"
        f" from generate_series(1, {attempts}) as nth"
        f" cross join generate_series(1, {cells}, 2) as ordinal;"
        f" select setval('event_seq_seq', 2 * {attempts} * {cells}),"
        f" setval('ended_number_seq', 2 * {attempts} * {cells});"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
