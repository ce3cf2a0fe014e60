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


def away(error: GitError) -> LedgerError:
    """What git says of a remote, as a ledger's error."""
    hint = (
        "see that this user may read and push there"
        if isinstance(error, GitDenied)
        else "see that the repository is there and can be reached (a new one is made with `git init"
        " --bare`)"
    )
    return LedgerAway(f"the ledger {error}; {hint}")
