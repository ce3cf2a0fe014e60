"""One installation's side of a ledger in git: its mirror, its own objects, and how it looks."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchfleet.errors import (
    GitAway,
    GitDenied,
    GitError,
    LedgerAbsent,
    LedgerError,
    LedgerUnreachable,
)
from benchfleet.git.objects import EMPTY_TREE, Objects
from benchfleet.git.process import Git, make_repository
from benchfleet.git.remote import Remote, Swap
from benchfleet.ledger.base import Clock
from benchfleet.ledger.git.address import Refs, address_of, mirror_folder, ref_part
from benchfleet.ledger.git.log import message
from benchfleet.ledger.git.looking import Looking
from benchfleet.ledger.git.mirror import Mirror
from benchfleet.ledger.git.present import away
from benchfleet.ledger.git.turn import Turn

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Store(Looking):
    """The mirror of a ledger in `folder`, and the remote that it is of.

    All of it is done by whoever has the `turn`.
    """

    def __init__(
        self,
        url: str,
        *,
        campaign: str,
        folder: Path,
        lease: float,
        clock: Clock,
        wall: Clock,
        make: bool,
        host: str,
    ) -> None:
        super().__init__()
        self.address, self.refs, self.campaign = address_of(url), Refs(campaign), campaign
        self.shown = self.address.shown
        self.clock, self.wall, self.lease = clock, wall, lease
        self.folder = mirror_folder(folder, self.address, campaign)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.turn = Turn(self.folder / "turn")
            with self.turn:
                if (again := self._started_anew()) and not self._sound():
                    shutil.rmtree(self.folder / "objects.git", ignore_errors=True)
                make_repository(self.folder / "objects.git")
        except OSError as error:
            raise LedgerUnreachable(f"{self.folder} cannot be used: {error.strerror}") from error
        self.git = Git(self.folder / "objects.git")
        self.objects = Objects(self.git)
        self.remote = Remote(self.git, self.address.remote, self.shown)
        with self.turn:
            self.mirror = Mirror(self.folder / "mirror.db", campaign)
            if again:
                with self.mirror.writing() as change:
                    change.do("count_anew", now=clock(), lease=lease)
                    change.do("move_anew", now=clock())
                (self.folder / "boot").write_text(_boot())
            self.number = self._installation()
        self.log = f"{self.refs.logs}{self.number}"
        self.machine = f"refs/heads/machine/{ref_part(host or socket.gethostname())}-{self.number}"
        try:
            self._open(make)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.ending.set()
        with self.turn:
            self.objects.close()
            self.mirror.close()

    def _started_anew(self) -> bool:
        """Whether this machine has started since: its clock counts anew, and git's objects were
        perhaps not written whole."""
        file = self.folder / "boot"
        return not file.exists() or file.read_text() != _boot()

    def _sound(self) -> bool:
        """Whether git can read all commits and folders that are held."""
        git = Git(self.folder / "objects.git")
        read = "rev-list", "--objects", "--filter=blob:none", "--all", "--quiet"
        return not git.ask(*read).code

    def _installation(self) -> str:
        """The short id of this installation, made once."""
        file = self.folder / "installation"
        if not file.exists():
            beside = file.with_name(f"installation.{os.getpid()}")
            beside.write_text(os.urandom(4).hex())
            os.replace(beside, file)
        return ref_part(file.read_text().strip())

    # Opening

    def _open(self, make: bool) -> None:
        """Look at the remote once, without patience."""
        with self.plainly(), self.turn:
            refs = self.seen_refs()
            with self.mirror.reading() as do:
                known = self.mirror.tips(do)
            if self.refs.ledger not in refs and not known:
                if not make:
                    raise LedgerAbsent(f"{self.shown} has no ledger of campaign {self.campaign!r}")
                self._make()
                refs = self.seen_refs()
            self.take_in(refs)

    def _make(self) -> None:
        text = message(f"begin the ledger of {self.campaign}", campaign=self.campaign)
        commit = self.commit(EMPTY_TREE, (), text)
        self.remote.push([Swap(ref=self.refs.ledger, old="", new=commit)])  # or another was first

    def commit(self, tree: str, parents: tuple[str, ...], text: str) -> str:
        who = f"benchfleet <{self.number}@benchfleet.invalid>"
        return self.objects.commit(tree, parents, text, who=who, at=self.wall())

    @contextmanager
    def plainly(self) -> Iterator[None]:
        """Raise what git says as an error of a ledger."""
        try:
            yield
        except GitError as error:
            raise self.plain(error) from error

    def plain(self, error: GitError) -> LedgerError:
        if isinstance(error, (GitAway, GitDenied)):
            return away(error)
        return LedgerError(f"the ledger {self.shown}: {error}")


def _boot() -> str:
    try:
        return _BOOT.read_text()
    except OSError:
        return ""
