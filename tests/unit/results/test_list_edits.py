"""What people change in lists of phases, taken as orders or refused."""

from __future__ import annotations

import pytest

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Fingerprint
from benchfleet.domain.state import State
from benchfleet.results.stores.list_edits import (
    Orders,
    has_conflict,
    lines_of,
    orders_of,
    rewritten,
    with_endings,
)

ONE = "phase/one.txt"
TWO = "phase/two.txt"


def record(name: str, state: State = "pending") -> CellRecord:
    return CellRecord(
        fingerprint=Fingerprint(name), id=name, path=name, state=state, attempt=0, tries=0, token=0
    )


KNOWN = {name: record(name) for name in "abcdef"} | {
    "running": record("running", "running"),
    "failed": record("failed", "failed"),
    "done": record("done", "success"),
}


def asked(before: list[str], after: list[str]) -> tuple[Orders, list[str]]:
    """The orders of a list, and the list afterwards."""
    orders = orders_of({ONE: before}, {ONE: after}, KNOWN)
    return orders, rewritten(ONE, after, orders, KNOWN)


def test_a_list_that_nobody_changed_loses_its_done_lines_alone() -> None:
    orders, after = asked(["# mine", "a", "done", "what?"], ["# mine", "a", "done", "what?"])
    assert orders == Orders()
    assert after == ["# mine", "a", "what?"]


def test_a_line_that_is_struck_cancels_its_cell() -> None:
    orders, after = asked(["a", "b", "failed", "done"], ["a"])
    assert [one.id for one in orders.cancel] == ["b"]
    assert (orders.retry, orders.refused, after) == ([], [], ["a"])


def test_a_line_that_is_added_runs_a_failed_cell_again() -> None:
    orders, after = asked(["a"], ["a", "failed", "b"])
    assert [one.id for one in orders.retry] == ["failed"]
    assert (orders.cancel, orders.refused, after) == ([], [], ["a", "failed", "b"])


@pytest.mark.parametrize(
    ("after", "line", "why", "left"),
    [
        (["a", "x.json"], "x.json", "the name of no cell", ["a"]),
        (["a", "done"], "done", "it is done", ["a"]),
    ],
)
def test_an_addition_that_is_no_order_is_refused_with_a_sentence(
    after: list[str], line: str, why: str, left: list[str]
) -> None:
    orders, listed = asked(["a"], after)
    ((path, refused, reason),) = orders.refused
    assert (path, refused) == (ONE, line)
    assert why in reason
    assert listed == [*left, f"# refused: {line}: {reason}"]
    assert asked(listed, listed)[1] == listed  # no second comment


def test_a_running_cell_is_not_struck() -> None:
    orders, after = asked(["a", "running"], ["a"])
    assert orders.cancel == []
    assert after[:2] == ["a", "running"]
    assert after[2].startswith("# refused: running: it runs now")


def test_a_list_that_is_emptied_or_deleted_cancels_nothing() -> None:
    for lists in ({ONE: ["# none"]}, {}):
        orders = orders_of({ONE: ["a", "b"]}, lists, KNOWN)
        assert orders.cancel == []
        assert rewritten(ONE, lists.get(ONE, []), orders, KNOWN)[-4:-2] == ["a", "b"]


def test_a_list_in_which_no_earlier_line_is_left_cancels_nothing() -> None:
    orders, after = asked(["a", "b", "failed"], ["a?", "b?", "failed?"])
    assert orders.cancel == []
    assert after[:2] == ["a", "b"]
    assert sum(line.startswith("# refused: a: no earlier line is left") for line in after) == 1


def test_a_line_without_its_ending_names_its_cell() -> None:
    known = {"a.json": record("a"), "b.json": record("b")}
    assert with_endings(["# a", "a", "b.json", "c", ""], known) == [
        "# a", "a.json", "b.json", "c", "",
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_lists_are_read_in_the_encodings_of_editors(encoding: str) -> None:
    assert lines_of("a.json\r\n ü.json\n".encode(encoding)) == ["a.json", "ü.json"]


@pytest.mark.parametrize("content", [b"a\xff.json\n", b"\xff\xfea"])
def test_a_list_that_is_no_text_is_rejected(content: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        lines_of(content)


def test_lines_that_are_moved_up_run_first_in_their_order() -> None:
    orders, after = asked(["a", "b", "c", "d"], ["d", "a", "b", "c"])
    assert [one.id for one in orders.first[ONE]] == ["d"]
    assert after == ["d", "a", "b", "c"]
    orders, _ = asked(["a", "b", "c", "d"], ["c", "a", "d", "b"])
    assert [one.id for one in orders.first[ONE]] == ["c", "a", "d"]
    assert asked(["a", "b", "c", "d"], ["a", "d"])[0].first == {}


def test_a_line_that_is_moved_to_another_list_returns_to_its_own() -> None:
    before = {ONE: ["a", "b"], TWO: ["c"]}
    after = {ONE: ["b"], TWO: ["c", "a"]}
    orders = orders_of(before, after, KNOWN)
    assert (orders.cancel, orders.retry) == ([], [])
    assert rewritten(ONE, after[ONE], orders, KNOWN) == ["b", "a"]
    two = rewritten(TWO, after[TWO], orders, KNOWN)
    assert two[0] == "c"
    assert two[1].startswith(
        "# refused: a: it was moved from phase/one.txt; the campaign file says"
    )


def test_the_lines_of_another_campaign_are_left_alone() -> None:
    orders = orders_of({TWO: ["theirs"]}, {TWO: ["theirs", "more of theirs"]}, KNOWN)
    assert orders == Orders()


def test_conflict_markers_are_seen() -> None:
    assert has_conflict(["a", "<<<<<<< HEAD"])
    assert not has_conflict(["# <<<<<<<", "a"])


def test_the_lines_of_a_list_that_waits_are_neither_struck_nor_moved() -> None:
    before = {ONE: ["a", "b", "running"], TWO: ["c", "d", "e", "failed"]}
    after = {
        ONE: ["a", "c", "failed"],  # from the list that waits
        TWO: ["<<<<<<< HEAD", "e", "d", "=======", "b", "done", ">>>>>>> theirs"],
    }
    orders = orders_of(before, after, KNOWN, waiting={TWO})
    assert (orders.cancel, orders.retry, orders.first) == ([], [], {})
    assert [(path, line) for path, line, _ in orders.refused] == [(ONE, "b"), (ONE, "running")]
    one = rewritten(ONE, after[ONE], orders, KNOWN)
    assert one[:5] == ["a", "c", "failed", "b", "running"]
    assert one[5].startswith("# refused: b: it was moved to phase/two.txt, which waits")
