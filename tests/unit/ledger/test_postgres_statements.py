"""The statements of the PostgreSQL ledger, and the names and addresses that it goes by."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from benchfleet import registry
from benchfleet.errors import MissingExtra, UnknownName
from benchfleet.ledger.addresses import display_url, schema_name, split_url
from benchfleet.ledger.named_queries import load_queries
from benchfleet.ledger.table_copy import TABLES

LEDGERS = files("benchfleet.ledger")


def test_every_statement_is_used_and_every_one_used_is_there() -> None:
    package = LEDGERS.joinpath("postgres")
    code = "".join(one.read_text() for one in package.iterdir() if one.name.endswith(".py"))
    statements = load_queries(Path(str(package.joinpath("queries.sql"))))
    assert {name for name in statements if f'"{name}"' in code} == statements.keys()
    asked = set(re.findall(r'\b(?:run|_rows)\(\s*(?:\w+, |self\._connection, )?"(\w+)"', code))
    assert asked <= statements.keys()


@pytest.mark.parametrize("database", ["postgres", "sqlite"])
def test_both_databases_have_the_tables_that_are_copied(database: str) -> None:
    script = LEDGERS.joinpath(f"{database}/schema.sql").read_text()
    tables = dict(re.findall(r"create table (?:if not exists )?(\w+) \((.*?)\n\)", script, re.S))
    columns = {name: re.findall(r"^  (\w+) ", text, re.M) for name, text in tables.items()}
    assert tables.keys() == {"meta", "progress", *TABLES}
    for table, names in TABLES.items():
        assert sorted(columns[table]) == sorted(names)


@pytest.mark.parametrize(
    ("campaign", "schema"),
    [
        ("study", "benchfleet_study"),
        ("my-study", "benchfleet_my_study_........"),
        ("Study", "benchfleet__tudy_........"),
        ("x" * 70, f"benchfleet_{'x' * 43}_........"),
    ],
)
def test_a_campaign_has_a_schema_of_its_own(campaign: str, schema: str) -> None:
    assert re.fullmatch(schema, schema_name(campaign))
    assert len(schema_name(campaign)) <= 63


def test_campaigns_whose_names_are_alike_have_different_schemas() -> None:
    names = ["a-b", "a_b", "a.b", "A_b", "a" * 60, "a" * 61]
    assert len({schema_name(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@db/lab", "postgresql://me@db/lab"),
        (
            "postgresql://me:s%40c@db:1,db2:2/lab?sslmode=require",
            "postgresql://me@db:1,db2:2/lab?sslmode=require",
        ),
        ("postgresql://db/lab?user=me&password=secret", "postgresql://db/lab?user=me"),
        ("postgresql://db/lab?password=secret&user=me", "postgresql://db/lab?user=me"),
        ("postgresql://db:5432/lab?user=me&password=a@/secret", "postgresql://db:5432/lab?user=me"),
        ("postgres://me:se/cr:et@db/lab", "postgres://me@db/lab"),
        ("postgresql:///lab?service=lab", "postgresql:///lab?service=lab"),
        ("postgresql://db/lab?sslpassword=secret&sslkey=k", "postgresql://db/lab?sslkey=k"),
        ("postgresql://db/lab?pass%77ord=secret", "postgresql://db/lab"),
        ("postgresql://db/lab?oauth_client_secret=secret", "postgresql://db/lab"),
        ("postgresql://db/lab?passwd=secret&user=me", "postgresql://db/lab?user=me"),
        ("postgresql://db/lab?passfile=p", "postgresql://db/lab?passfile=p"),
        ("postgres:host=db password=secret", "postgres:host=db password=…"),
        ("postgresql://me@[::1]:5432/lab", "postgresql://me@[::1]:5432/lab"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert display_url(url) == shown


@pytest.mark.parametrize(
    "address",
    [
        "host=db user=me password=secret dbname=lab",
        "postgres:host=db password=secret",
        "postgresql:me:secret@db/lab",
        "postgresql:/me:secret@db/lab",
        "postgresql//me:secret@db/lab",
    ],
)
def test_an_address_that_is_no_url_is_no_name_of_a_file(address: str) -> None:
    with pytest.raises(UnknownName, match="write postgresql://") as refused:
        split_url(address)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("path", ["postgres.db", "postgresql/ledger.db", "C=1/host=x.db"])
def test_a_file_may_be_called_like_a_server(path: str) -> None:
    assert split_url(path) == ("sqlite", path)


def test_a_ledger_whose_driver_is_lacking_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def import_module(name: str) -> object:
        raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")

    monkeypatch.setattr(registry, "import_module", import_module)
    with pytest.raises(MissingExtra, match=r"needs psycopg; pip install 'benchfleet\[postgres\]'"):
        registry.load("ledgers", "postgresql")
