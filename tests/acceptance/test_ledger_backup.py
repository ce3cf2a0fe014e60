"""Backups of a ledger on a PostgreSQL server, by the commands of docs/ledgers.md."""

from __future__ import annotations

import re
import shlex
import subprocess
import uuid
from pathlib import Path

import pytest

from benchfleet.ledger.postgres.grants import reader_grants
from postgres import Postgres, need_postgres

from .conftest import MOCK, User


def backup_command(program: str, at: str) -> list[str]:
    """The line of the docs that runs this program, for the database `at`."""
    page = Path(__file__).parents[2] / "docs" / "ledgers.md"
    (line,) = re.findall(rf"^ *\$ ({program} .*)$", page.read_text("utf-8"), re.MULTILINE)
    _, *words = shlex.split(line.replace("postgresql://owner@db.lab/bench", at))
    return [str(need_postgres() / program), *words]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_dump_is_restored_by_the_commands_and_steps_of_the_docs(
    user: User, postgres: Postgres, elsewhere: bool
) -> None:
    database, other = (f"lab_{uuid.uuid4().hex[:8]}" for _ in range(2))
    for name in (database, other):
        postgres.sql(f"create database {name}")
    user.write(MOCK)
    here, there = ("--results", "here"), ("--results", "there")
    at = ["study.yaml", "--ledger", postgres.url(database=database)]
    user.run("ledger", "init", *at)
    postgres.sql(
        "do $$ begin if to_regrole('looks') is null then create role looks login; end if; end $$"
    )
    postgres.sql(reader_grants("study", "looks"), database=database)
    user.run("work", *at, "--cpu-slots", "1", *here, "--models", "m1")
    subprocess.run(backup_command("pg_dump", at[-1]), cwd=user.folder, check=True)
    user.run("work", *at, "--cpu-slots", "1", *there)
    assert user.json("status", *at, *there)["success"] == 2

    if elsewhere:
        at[-1] = postgres.url(database=other)
    subprocess.run(backup_command("pg_restore", at[-1]), cwd=user.folder, check=True)
    user.run("ledger", "check", *at, *here)
    only_looks = at[-1].replace("bench@", "looks@")
    counts = user.json("status", "study.yaml", "--ledger", only_looks, *here)
    assert (counts["success"], counts["pending"]) == (1, 1)
    for place in (here, there):
        user.run("ledger", "rebuild", *at, *place)
    user.run("ledger", "check", *at, *here)
    counts = user.json("status", *at, *here)
    assert (counts["success"], counts["gone"], len(counts["elsewhere"])) == (2, [], 1)
    again = user.run("work", *at, "--cpu-slots", "1", *here).stdout
    assert again.startswith("study: 2 cells · 2 done (2 reused)\n")  # nothing runs twice
