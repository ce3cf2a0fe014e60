"""One installation's side of a ledger in git: its mirror, its own objects, and how it looks."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from benchfleet.errors import (
    GitAway,
    GitDenied,
    GitError,
    LedgerAbsent,
    LedgerDamaged,
    LedgerError,
    LedgerUnreachable,
)
from benchfleet.git.objects import EMPTY_TREE, Commit, Objects, kept
from benchfleet.git.process import Git, make_repository
from benchfleet.git.remote import Remote, Swap
from benchfleet.ledger.chosen_table import Do
from benchfleet.ledger.git_address import Refs, address_of, mirror_folder, ref_part
from benchfleet.ledger.git_log import enrolment_of, facts_of, message, told
from benchfleet.ledger.git_mirror import UNSURE, Mirror, can_take, enter, take_in
from benchfleet.ledger.git_present import away
from benchfleet.ledger.git_turn import Turn
from benchfleet.ledger.sql import Clock

_BACK = 200  # commits of a log in which one is looked for
_BOOT = Path("/proc/sys/kernel/random/boot_id")
Tips = Mapping[str, tuple[str, float]]  # by ref, its commit and when that was first seen


class Store:
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
        self.address, self.refs, self.campaign = address_of(url), Refs(campaign), campaign
        self.shown = self.address.shown
        self.clock, self.wall, self.lease = clock, wall, lease
        self.folder = mirror_folder(folder, self.address, campaign)
        self.looked = -float("inf")  # when, by time.monotonic
        self.ending = threading.Event()
        self.names: list[str] = []  # of the installations that are at work, ours too
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.turn = Turn(self.folder / "turn")
            with self.turn:
                self._forget_after_a_crash()
                make_repository(self.folder / "objects.git")
        except OSError as error:
            raise LedgerUnreachable(f"{self.folder} cannot be used: {error.strerror}") from error
        self.git = Git(self.folder / "objects.git")
        self.objects = Objects(self.git)
        self.remote = Remote(self.git, self.address.remote, self.shown)
        with self.turn:
            self.mirror = Mirror(self.folder / "mirror.db", campaign)
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

    def _forget_after_a_crash(self) -> None:
        """Since this machine started, its clock counts anew, and nothing here was synced before:
        all of it is read again."""
        file = self.folder / "boot"
        try:
            boot = _BOOT.read_text()
        except OSError:
            boot = ""
        whole = (self.folder / "mirror.db").exists() and (self.folder / "objects.git").exists()
        if not whole or not file.exists() or file.read_text() != boot:
            shutil.rmtree(self.folder / "objects.git", ignore_errors=True)
            for name in ("mirror.db", "mirror.db-wal", "mirror.db-shm"):
                (self.folder / name).unlink(missing_ok=True)
            file.write_text(boot)

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
        try:
            with self.turn:
                refs = self.seen_refs()
                if self.refs.ledger not in refs:
                    if not make:
                        raise LedgerAbsent(
                            f"{self.shown} has no ledger of campaign {self.campaign!r}"
                        )
                    self._make()
                    refs = self.seen_refs()
                self.take_in(refs)
        except GitError as error:
            raise self.plain(error) from error

    def _make(self) -> None:
        text = message(f"begin the ledger of {self.campaign}", campaign=self.campaign)
        commit = self.commit(EMPTY_TREE, (), text)
        self.remote.push([Swap(ref=self.refs.ledger, old="", new=commit)])  # or another was first

    def commit(self, tree: str, parents: tuple[str, ...], text: str) -> str:
        who = f"benchfleet <{self.number}@benchfleet.invalid>"
        return self.objects.commit(tree, parents, text, who=who, at=self.wall())

    # Looking at the remote

    def look(self) -> None:
        """Take in what happened elsewhere. Raises GitError."""
        with self.turn:
            self.take_in(self.seen_refs())

    def seen_refs(self) -> dict[str, str]:
        return self.remote.refs(f"{self.refs.root}/*", self.machine)

    def take_in(self, refs: Mapping[str, str]) -> None:
        if self.refs.ledger not in refs:
            raise LedgerUnreachable(
                f"{self.shown} has lost the ledger of {self.campaign!r}, which was there; see that "
                f"it is the same repository"
            )
        now = self.clock()
        began = time.monotonic()
        with self.mirror.reading() as do:
            tips, claims = self.mirror.tips(do), self.mirror.claims(do)
        logs = {
            ref: oid
            for ref, oid in refs.items()
            if not ref.startswith(self.refs.claims) and tips.get(ref, ("",))[0] != oid
        }
        pointed = {
            ref.removeprefix(self.refs.claims): oid
            for ref, oid in refs.items()
            if ref.startswith(self.refs.claims)
        }
        moved = {
            fingerprint: oid
            for fingerprint, oid in pointed.items()
            if (known := claims.get(fingerprint)) is None or oid not in known[1:]
        }
        self.remote.fetch([*logs.values(), *moved.values()])
        with self.mirror.writing() as change:
            for ref, oid in logs.items():
                self._follow(change.do, ref, tips.get(ref, ("",))[0], oid, now)
            self._follow_logs(change.do, tips, logs, now)
            self._point(change.do, pointed, now)
        for ref, oid in logs.items():
            kept(self.git, ref_part(ref), oid)
        self.looked = began
        at_work = {ref for ref in logs if tips}
        at_work |= {ref for ref, (_, moved) in tips.items() if now - moved < self.lease}
        names = {ref.removeprefix(self.refs.logs) for ref in at_work if self.refs.logs in ref}
        self.names = sorted(names | {self.number})

    def _follow(self, do: Do, ref: str, known: str, oid: str, now: float) -> None:
        """Take in the ledger's own refs: what it is, and its enrolments."""
        if ref == self.refs.ledger:
            for commit in self._since(oid, known):
                if told(commit).get("campaign") != self.campaign:
                    raise LedgerError(f"{self.shown}: {ref} is the ledger of another campaign")
        elif ref == self.refs.enrolled:
            for commit in self._since(oid, known):
                enter(do, enrolment_of(self.objects, commit))
        elif ref != self.machine:
            return
        do("moved", ref=ref, tip=oid, moved=now)

    def _follow_logs(
        self, do: Do, tips: Mapping[str, tuple[str, float]], refs: Mapping[str, str], now: float
    ) -> None:
        """Take in what the logs tell anew, each cell's things in their order. What follows
        something that was not seen yet waits for the next look."""
        waiting = {
            ref: [(one.oid, facts_of(one)) for one in self._since(oid, tips.get(ref, ("",))[0])]
            for ref, oid in refs.items()
            if ref.startswith(self.refs.logs)
        }
        places = dict.fromkeys(waiting, 0)
        while True:
            heads = sorted(
                (found[places[ref]][1][0].at, ref)
                for ref, found in waiting.items()
                if places[ref] < len(found)
            )
            for _, ref in heads:
                oid, facts = waiting[ref][places[ref]]
                if can_take(do, facts):
                    take_in(do, facts, oid, now=now, lease=self.lease)
                    places[ref] += 1
                    break
            else:
                break
        for ref, place in places.items():
            if place:
                do("moved", ref=ref, tip=waiting[ref][place - 1][0], moved=now)

    def _since(self, oid: str, known: str) -> list[Commit]:
        try:
            return self.objects.since(oid, known)
        except GitError as error:
            raise LedgerDamaged(
                f"{self.shown}: {error}; a ledger's refs are never to be rewritten"
            ) from error

    def _point(self, do: Do, pointed: Mapping[str, str], now: float) -> None:
        """See where the claims point: to what was taken in, or to a heartbeat after that."""
        beats: dict[str, Mapping[str, str]] = {}
        claims = self.mirror.claims(do)
        for fingerprint, oid in pointed.items():
            turn, base, object = claims.get(fingerprint, (0, "", ""))
            if oid == object:
                continue
            if oid != base:
                if oid not in beats:
                    kind, content = self.objects.read(oid)
                    beats[oid] = json.loads(content)["holds"] if kind == "blob" else {}
                if not base or beats[oid].get(fingerprint) != base:
                    oid = UNSURE
                else:
                    do("beat", fingerprint=fingerprint, expires=now + self.lease)
            do("stand", fingerprint=fingerprint, turn=turn, base=base, object=oid)
        for fingerprint, (_, _, object) in claims.items():
            if object and fingerprint not in pointed:  # compacted away
                do("point", fingerprint=fingerprint, object="")

    def plain(self, error: GitError) -> LedgerError:
        if isinstance(error, (GitAway, GitDenied)):
            return away(error)
        return LedgerError(f"the ledger {self.shown}: {error}")

    def last_results(self, do: Do) -> str:
        """The last commit of results that our log tells of, where it is here; else "". The branch
        lacks it where the remote went away while it changed refs."""
        oid = self.mirror.tips(do).get(self.log, ("", 0.0))[0]
        for _ in range(_BACK):
            if not oid:
                break
            commit = self.objects.commit_of(oid)
            if found := set(told(commit).get("results", {}).values()):
                try:
                    before = {one for oid in found for one in self.objects.commit_of(oid).parents}
                except GitError:  # of a mirror that was read anew
                    break
                return str((found - before).pop())
            oid = commit.parents[0] if commit.parents else ""
        return ""

    def went_through(self, commit: str) -> bool:
        """Whether a push of which nothing was heard did reach the remote."""
        with self.mirror.reading() as do:
            tips = self.mirror.tips(do)
        for ref in (self.log, self.refs.enrolled):
            oid = tips.get(ref, ("", 0.0))[0]
            for _ in range(_BACK):
                if oid == commit:
                    return True
                parents = self.objects.commit_of(oid).parents if oid else ()
                oid = parents[0] if parents else ""
        return False
