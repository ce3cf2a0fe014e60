"""What an installation has of a ledger in git: its mirror, its objects, its remote and its lock."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchfleet.errors import GitAway, GitDenied, GitError, LedgerError, LedgerUnreachable
from benchfleet.git.objects import Objects
from benchfleet.git.process import Git, init_bare_repository
from benchfleet.git.remote import Remote
from benchfleet.git.shared_files import SharedFiles
from benchfleet.ledger.base import Clock
from benchfleet.ledger.call_timeout import CallTimeout
from benchfleet.ledger.git.address import Refs, address_of, mirror_folder, ref_part
from benchfleet.ledger.git.discovery import away
from benchfleet.ledger.git.mirror import Mirror
from benchfleet.ledger.git.replay import restart_leases
from benchfleet.ledger.git.repo_lock import RepoLock

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Store:
    """The installation's files in `folder`, for the ledger of `campaign` at `url`.

    Changes of the mirror or its objects need the `lock`.
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
        host: str,
    ) -> None:
        self.address, self.refs, self.campaign = address_of(url), Refs(campaign), campaign
        self.label = self.address.label
        self.clock, self.wall, self.lease = clock, wall, lease
        self.closing, self.call_timeout = threading.Event(), CallTimeout()
        self.folder = mirror_folder(folder, self.address, campaign)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.lock = RepoLock(self.folder / "turn", self.call_timeout)
            with self.lock:
                if (rebooted := self._rebooted()) and not self._sound():
                    shutil.rmtree(self.folder / "objects.git", ignore_errors=True)
                init_bare_repository(self.folder / "objects.git")
        except OSError as error:
            raise LedgerUnreachable(f"{self.folder} cannot be used: {error.strerror}") from error
        self.git = Git(self.folder / "objects.git")
        self.objects = Objects(self.git)
        self.remote = Remote(self.git, self.address.remote, self.label)
        with self.lock:
            self.mirror = Mirror(self.folder / "mirror.db", campaign)
            if rebooted:
                with self.mirror.writing() as writer:
                    restart_leases(writer.execute, now=clock(), lease=lease)
                    writer.execute("shift_back_offs", now=clock())
                    writer.execute("shift_log_times", now=clock())
                (self.folder / "boot").write_text(_boot())
            self.number = self._installation()
        self.log = f"{self.refs.logs}{self.number}"
        self.machine = f"refs/heads/machine/{ref_part(host or socket.gethostname())}-{self.number}"

    def close(self) -> None:
        self.closing.set()
        with self.lock:
            self.objects.close()
            self.mirror.close()
        self.lock.close()

    def commit(self, tree: str, parents: tuple[str, ...], text: str) -> str:
        who = f"benchfleet <{self.number}@benchfleet.invalid>"
        return self.objects.commit(tree, parents, text, who=who, at=self.wall())

    def shared_files(
        self, every: Callable[[], float], wait_to_push: Callable[[], None] = lambda: None
    ) -> SharedFiles:
        """Files of the remote beside the ledger, with a local repository of their own."""
        folder = self.folder / "files.git"
        init_bare_repository(folder)
        git = Git(folder)
        remote = Remote(git, self.address.remote, self.label)
        return SharedFiles(
            remote=remote, objects=Objects(git), every=every, wait_to_push=wait_to_push
        )

    @contextmanager
    def ledger_errors(self) -> Iterator[None]:
        """Raise a GitError as an error of a ledger."""
        try:
            yield
        except GitError as error:
            raise self.ledger_error(error) from error

    def ledger_error(self, error: GitError) -> LedgerError:
        if isinstance(error, (GitAway, GitDenied)):
            return away(error, may_be_new=not self._has_seen_ledger())
        return LedgerError(f"the ledger {self.label}: {error}")

    def _has_seen_ledger(self) -> bool:
        """Whether an earlier pull found the ledger at its address; True if that is unknown."""
        try:
            with self.mirror.reading() as execute:
                return bool(self.mirror.tips(execute))
        except LedgerUnreachable:
            return True

    def _rebooted(self) -> bool:
        """Whether the machine has started since: its clock restarted, and git's objects were
        perhaps not written whole."""
        file = self.folder / "boot"
        return not file.exists() or file.read_text() != _boot()

    def _sound(self) -> bool:
        """Whether git can read all commits and folders that are held."""
        git = Git(self.folder / "objects.git")
        read = "rev-list", "--objects", "--filter=blob:none", "--all", "--quiet"
        return not git.run(*read).code

    def _installation(self) -> str:
        """The short id of this installation, made once."""
        file = self.folder / "installation"
        if not file.exists():
            beside = file.with_name(f"installation.{os.getpid()}")
            beside.write_text(os.urandom(4).hex())
            os.replace(beside, file)
        return ref_part(file.read_text().strip())


def _boot() -> str:
    try:
        return _BOOT.read_text()
    except OSError:
        return ""
