"""What git and a server say of a push."""

from __future__ import annotations

import pytest

from benchfleet.git.packets import NONE, Packets, advertised, asked, reported

A, B = "a" * 40, "b" * 40


def packets(*lines: str) -> bytes:
    return b"".join(b"%04x%s" % (len(line) + 5, line.encode() + b"\n") for line in lines) + b"0000"


def lines(told: bytes, step: int) -> list[str]:
    """Read so many bytes at a time."""
    found = Packets()
    for start in range(0, len(told), step):
        assert not found.ended
        found.feed(told[start : start + step])
    assert found.ended
    return found.lines


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_packets_are_read_however_they_arrive(step: int) -> None:
    first = f"{A} refs/x\0report-status atomic delete-refs object-format=sha1"
    told = packets(first, f"{NONE[:36]}beef refs/y0000", f"{B} .have")
    found = advertised(lines(told, step))
    assert found.refs["refs/x"] == A
    assert found.refs["refs/y0000"] == f"{NONE[:36]}beef"
    assert {A, B} <= found.there
    assert found.plain


@pytest.mark.parametrize("told", [b"fatal: no", b"0003", b"-001"])
def test_what_is_made_of_no_packets_is_refused(told: bytes) -> None:
    with pytest.raises(ValueError, match=r"packet|base 16"):
        Packets().feed(told)


@pytest.mark.parametrize(
    ("can", "more"),
    [
        ("report-status delete-refs", ""),
        ("atomic delete-refs", ""),
        ("report-status atomic delete-refs object-format=sha256", ""),
        ("report-status atomic delete-refs", f"shallow {B}"),
    ],
)
def test_a_repository_that_needs_more_than_is_said_here_is_left_to_git(can: str, more: str) -> None:
    found = advertised([f"{NONE} capabilities^{{}}\0{can}", *([more] if more else [])])
    assert not found.plain
    assert not found.refs


def test_a_push_names_what_is_there_and_what_is_to_be() -> None:
    found = lines(asked([("", A, "refs/x"), (A, "", "refs/y")], b""), 9)
    assert found[0].split("\0")[0] == f"{NONE} {A} refs/x"
    assert set(found[0].split("\0")[1].split()) == {"report-status", "atomic", "quiet"}
    assert found[1:] == [f"{A} {NONE} refs/y"]


def test_a_report_that_lacks_a_ref_or_its_end_is_no_success() -> None:
    whole = packets("unpack ok", "ok refs/x", "ok refs/y")
    assert reported(whole, "", 2).done
    assert not reported(whole, "", 3).done
    cut = reported(whole[:-4], "", 2)
    assert (cut.done, cut.reasons, cut.err) == (False, [], "it ended without a report")


def test_refs_that_are_refused_say_why() -> None:
    told = packets("unpack ok", "ng refs/x atomic push failure", "ng refs/y hook declined")
    answer = reported(told, "closed", 2)
    assert (answer.done, answer.err) == (False, "closed")
    assert answer.reasons == ["atomic push failure", "hook declined"]
    assert reported(told, "", 2).err.endswith("\nrefs/y: hook declined")
