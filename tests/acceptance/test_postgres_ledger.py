"""A campaign whose ledger is a PostgreSQL database, as a user has it."""

from __future__ import annotations

import uuid

import pytest

from postgres import Postgres

from .conftest import MOCK, User

PASSWORD = "hush-hush"  # noqa: S105 - of a role of the test's own server


@pytest.fixture
def url(postgres: Postgres) -> str:
    """A database of the test's own, reached with a password."""
    name = f"lab_{uuid.uuid4().hex[:8]}"
    postgres.sql(
        "do $$ begin if to_regrole('secretive') is null then"
        f" create role secretive login password '{PASSWORD}'; end if; end $$"
    )
    postgres.sql(f"create database {name}")
    postgres.sql(f"grant create on database {name} to secretive")
    return postgres.url(user=f"secretive:{PASSWORD}", database=name)


def test_every_verb_works_through_it_and_never_shows_the_password(user: User, url: str) -> None:
    user.write(MOCK)
    at = ("study.yaml", "--ledger", url)
    assert user.json("status", *at)["pending"] == 2
    said = [user.run("run", *at, "--cpu-slots", "1").stdout]
    published = user.published()
    assert len(published) == 2
    said += [user.run(verb, *at).stdout for verb in ("run", "status", "report", "failures", "plan")]
    assert user.json("cancel", *at, "--yes")["cancelled"] == []
    said.append(user.run("retry", *at).stdout)
    assert user.json("ledger", "rebuild", *at)["known"] == 2
    assert user.json("status", *at)["success"] == 2
    assert user.published() == published
    assert PASSWORD not in "".join(said)
    assert url.replace(f":{PASSWORD}", "") in "".join(said)
    for file in user.folder.rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes()
    assert not list(user.folder.rglob("ledger.db"))


def test_a_database_without_the_ledger_of_results_does_not_run_them_again(
    user: User, url: str, postgres: Postgres
) -> None:
    user.write(MOCK)
    at = ("study.yaml", "--ledger", url)
    user.run("run", *at, "--cpu-slots", "1")
    published = user.published()
    database = url.rpartition("/")[2]
    postgres.sql("drop schema benchfleet_study cascade", database=database)
    for verb in ("run", "status"):
        refused = user.run(verb, *at, code=3).stderr
        assert "has no ledger of campaign 'study', but results are" in refused
        assert PASSWORD not in refused
    assert user.json("ledger", "rebuild", *at)["taken"] == 2
    assert user.json("status", *at)["success"] == 2
    assert user.published() == published


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((PASSWORD, "wrong"), "password authentication failed"),
        (("/lab_", "/no_"), "does not exist"),
        (("127.0.0.1:", "127.0.0.1:x"), "invalid integer value"),
    ],
)
def test_a_database_that_lets_nobody_in_is_named_with_the_reason(
    user: User, url: str, change: tuple[str, str], said: str
) -> None:
    user.write(MOCK)
    refused = user.run("run", "study.yaml", "--ledger", url.replace(*change), code=3).stderr
    assert said in refused
    assert PASSWORD not in refused
    assert refused.count("\n") == 1
