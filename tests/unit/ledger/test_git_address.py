"""What the URL of a git ledger says, and how its refs are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.errors import LedgerError
from benchfleet.ledger.git.address import LARGE, Refs, address_of, ref_part


@pytest.mark.parametrize(
    ("url", "remote", "hosted"),
    [
        ("git+file:///nas/lab.git", "file:///nas/lab.git", False),
        ("git+file:///a%20b/lab.git", "file:///a%20b/lab.git", False),
        ("git+file:lab.git", f"file://{Path.cwd()}/lab.git", False),
        ("git+file:///nas/lab.git?profile=hosted", "file:///nas/lab.git", True),
        ("git+ssh://git@nas/lab.git", "ssh://git@nas/lab.git", False),
        ("git+ssh://git@nas.local:2222/lab.git", "ssh://git@nas.local:2222/lab.git", False),
        ("git+ssh://git@192.168.1.4/lab.git", "ssh://git@192.168.1.4/lab.git", False),
        ("git+ssh://git@example.org/me/lab.git", "ssh://git@example.org/me/lab.git", True),
        ("git+https://example.org/me/lab.git", "https://example.org/me/lab.git", True),
        ("git+https://example.org/lab?profile=local", "https://example.org/lab", False),
        ("git+http://127.0.0.1:8000/lab.git", "http://127.0.0.1:8000/lab.git", False),
    ],
)
def test_a_url_says_where_the_repository_is_and_whose_server(
    url: str, remote: str, hosted: bool
) -> None:
    address = address_of(url)
    assert (address.remote, address.hosted, address.large) == (remote, hosted, LARGE)


def test_a_url_may_say_how_large_a_file_may_be() -> None:
    assert address_of("git+file:///lab.git?large=1.5MB").large == 1_500_000
    assert address_of("git+file:///lab.git?large=0").large == 0


def test_a_password_is_not_shown() -> None:
    address = address_of("git+https://me:secret@example.org/lab.git")
    assert address.label == "git+https://me@example.org/lab.git"
    assert address.remote == "https://me:secret@example.org/lab.git"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("git+ftp://example.org/lab.git", "is not a git ledger"),
        ("git+file:", "is not a git ledger"),
        ("git+file://nas/lab.git", "a file has no host"),
        ("git+ssh:///lab.git", "names no host"),
        ("git+file:///lab.git?profile=slow", "no profile 'slow'"),
        ("git+file:///lab.git?lfs=yes", "no option 'lfs'"),
        ("git+file:///lab.git?large=20XB", "is not a size"),
    ],
)
def test_what_is_no_address_is_named(url: str, says: str) -> None:
    with pytest.raises(LedgerError, match=says):
        address_of(url)


def test_any_name_becomes_one_part_of_a_ref_and_no_two_the_same() -> None:
    assert Refs("study").claims == "refs/benchfleet/study/claims/"
    names = ["a b", "a-b", "a/b", "..", "x.lock", "@{", "é", "", "a" * 300]
    parts = {ref_part(name) for name in names}
    assert len(parts) == len(names)
    assert all(part.replace("-", "").replace("_", "").isalnum() for part in parts)
    assert all(part.isascii() for part in parts)
