"""Finds the campaigns whose ledgers are in a git repository."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from benchfleet.errors import GitDenied, GitError, LedgerAway, LedgerError
from benchfleet.git.objects import Objects
from benchfleet.git.process import Git, init_bare_repository
from benchfleet.git.remote import Remote
from benchfleet.ledger.git.address import ROOT, address_of
from benchfleet.ledger.git.log import payload

_ADVICE = (  # by what git says, in lower case
    (("no space left", "quota exceeded"), "free space on the disk that is full, there or here"),
    (("read-only file system",), "see why its disk takes no writes, and make it writable"),
    (
        ("unable to create temporary object directory",),
        "see that its disk has space, and that this user may write to the repository",
    ),
)


def campaigns_at(url: str) -> Sequence[str]:
    """The names of the campaigns whose ledgers are there. Raises LedgerAway."""
    address = address_of(url)
    with TemporaryDirectory(prefix="benchfleet-") as folder:
        init_bare_repository(Path(folder))
        git = Git(Path(folder))
        try:
            remote = Remote(git, address.remote, address.label)
            refs = remote.refs(f"{ROOT}/*/ledger")
            remote.fetch(refs.values())
            with closing(Objects(git)) as objects:
                return sorted(payload(objects.commit_of(oid))["campaign"] for oid in refs.values())
        except GitError as error:
            raise away(error) from error


def away(error: GitError, *, may_be_new: bool = False) -> LedgerError:
    """What git says of a remote, as a ledger's error. `may_be_new`: no ledger was ever seen there,
    so perhaps its repository is still to be made."""
    return LedgerAway(f"the ledger {error}; {_advice(error, may_be_new)}")


def _advice(error: GitError, may_be_new: bool) -> str:
    low = str(error).lower()
    for words, advice in _ADVICE:
        if any(word in low for word in words):
            return advice
    if isinstance(error, GitDenied):
        return "see that this user may read and push there"
    new = " (a new one is made with `git init --bare`)" if may_be_new else ""
    return f"see that the repository is there and can be reached{new}"
