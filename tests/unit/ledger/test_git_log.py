"""A commit of a git ledger is read whole, or refused by its name: anybody may push one."""

from __future__ import annotations

import json

import pytest

from benchfleet.errors import LedgerDamaged, LedgerTooNew
from benchfleet.git.objects import Commit
from benchfleet.ledger.git.log import FORMAT, compressed, facts_of, lines_of, message, payload


def commit(text: str) -> Commit:
    return Commit(oid="abc123", tree="", parents=(), message=text)


def test_a_message_is_a_line_for_people_and_what_is_read_back() -> None:
    text = message("claim m/dense", facts=[["claimed", "f" * 8, 1.5, 2, {"token": 3}]])
    assert text.startswith("claim m/dense\n\n")
    (fact,) = facts_of(commit(text))
    assert (fact.kind, fact.fingerprint, fact.at, fact.turn) == ("claimed", "f" * 8, 1.5, 2)
    assert fact.data == {"token": 3}


@pytest.mark.parametrize(
    "body",
    ["", "words", "[]", "3", "{}", '{"benchfleet": null}', '{"benchfleet": "x"}', "[" * 100_000],
    ids=["none", "words", "list", "number", "object", "null", "text", "deep"],
)
def test_a_commit_of_somebody_else_is_damage(body: str) -> None:
    with pytest.raises(LedgerDamaged, match="the commit abc123 is none of a ledger's"):
        payload(commit(f"subject\n\n{body}"))


def test_a_commit_of_a_newer_format_asks_for_an_upgrade() -> None:
    text = f"subject\n\n{json.dumps({'benchfleet': FORMAT + 1})}"
    with pytest.raises(LedgerTooNew, match=f"its format is {FORMAT + 1}, this one knows {FORMAT}"):
        payload(commit(text))


@pytest.mark.parametrize("facts", [None, 3, [1], [["claimed"]], [[1, 2, 3, 4, 5, 6]]], ids=str)
def test_facts_of_another_shape_are_damage(facts: object) -> None:
    with pytest.raises(LedgerDamaged, match="the commit abc123 tells nothing readable"):
        facts_of(commit(message("subject", facts=facts)))
    with pytest.raises(LedgerDamaged, match="tells nothing readable"):
        facts_of(commit(message("subject")))


def test_lines_come_back_from_a_file_compressed_or_plain() -> None:
    assert lines_of(compressed(["a", "ä"])) == lines_of("a\nä\n".encode()) == ["a", "ä"]


@pytest.mark.parametrize("cut", [3, 12, -1])
def test_a_compressed_file_that_was_cut_cannot_be_unpacked(cut: int) -> None:
    with pytest.raises(ValueError, match="it cannot be unpacked"):
        lines_of(compressed(["a" * 100])[:cut])
