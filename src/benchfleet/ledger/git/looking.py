"""How an installation takes in what others did to a ledger in git, and nothing twice."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from benchfleet.errors import GitError, LedgerDamaged, LedgerError, LedgerUnreachable
from benchfleet.git.objects import Commit, Objects, kept
from benchfleet.git.process import Git
from benchfleet.git.remote import Remote
from benchfleet.ledger.git.address import Refs, ref_part
from benchfleet.ledger.git.log import enrolment_of, facts_of, told
from benchfleet.ledger.git.mending import Odd, complete_results, mend
from benchfleet.ledger.git.mirror import UNSURE, Change, Mirror
from benchfleet.ledger.git.state import newest_state, read_state, state_of
from benchfleet.ledger.git.taking import can_take, enter, standing, take_in
from benchfleet.ledger.git.turn import Turn
from benchfleet.ledger.statements import Do

_BACK = 200  # commits of a log in which one is looked for
Tips = Mapping[str, tuple[str, float]]  # by ref, its commit and when that was first seen


class Looking:
    """What a store sees of its remote; done by whoever has the `turn`."""

    shown: str
    campaign: str
    refs: Refs
    number: str  # of this installation
    log: str  # its own
    machine: str  # the branch of its results
    lease: float
    clock: Callable[[], float]
    turn: Turn
    git: Git
    objects: Objects
    remote: Remote
    mirror: Mirror

    def __init__(self) -> None:
        self.looked = -float("inf")  # when, by time.monotonic
        self.ending = threading.Event()
        self.names: list[str] = []  # of the installations that are at work, ours too
        self._odd = Odd()
        self.told_in_state = 0  # events of the newest state that lies there

    def look(self) -> None:
        """Take in what happened elsewhere. Raises GitError."""
        with self.turn:
            self.take_in(self.seen_refs())

    def seen_refs(self) -> dict[str, str]:
        return self.remote.refs(f"{self.refs.root}/*", self.machine)

    def take_in(self, refs: Mapping[str, str]) -> None:
        now, began = self.clock(), time.monotonic()
        self.told_in_state, state = newest_state(self.refs, refs)
        with self.mirror.reading() as do:
            tips, claims = self.mirror.tips(do), self.mirror.claims(do)
        self._see_that_nothing_is_lost(tips, refs)
        fresh = not tips
        if fresh and state:
            self._begin_with(state, refs)
            with self.mirror.reading() as do:
                tips, claims = self.mirror.tips(do), self.mirror.claims(do)
        spared = self.refs.claims, self.refs.states
        logs = {
            ref: oid
            for ref, oid in refs.items()
            if not ref.startswith(spared) and tips.get(ref, ("",))[0] != oid
        }
        pointed = {
            ref.removeprefix(self.refs.claims): oid
            for ref, oid in refs.items()
            if ref.startswith(self.refs.claims)
        }
        moved = [oid for name, oid in pointed.items() if oid not in claims.get(name, ("", "", ""))]
        self._bring(logs, moved, tips)
        with self.mirror.writing() as change:
            if self.machine in tips and self.machine not in refs:  # somebody removed the branch
                change.do("moved", ref=self.machine, tip="", moved=now)
            for ref, oid in logs.items():
                self._follow(change, ref, tips.get(ref, ("",))[0], oid, now)
            self._follow_logs(change.do, tips, logs, now)
            odd = self._point(change.do, pointed, now)
        for ref, oid in logs.items():
            kept(self.git, ref_part(ref), oid)
        if lasting := self._odd.lasting(odd, now):
            self._mend(lasting)
        self.looked = began
        at_work = set() if fresh else set(logs)
        at_work |= {ref for ref, (_, moved) in tips.items() if now - moved < self.lease}
        names = {ref.removeprefix(self.refs.logs) for ref in at_work if self.refs.logs in ref}
        self.names = sorted(names | {self.number})

    def _see_that_nothing_is_lost(self, tips: Tips, refs: Mapping[str, str]) -> None:
        needed = self.refs.ledger, *(ref for ref in (self.refs.enrolled, self.log) if ref in tips)
        for ref in needed:
            if ref not in refs:
                what = f"{ref} of " if ref != self.refs.ledger else ""
                raise LedgerUnreachable(
                    f"{self.shown} has lost {what}the ledger of {self.campaign!r}, which was there;"
                    f" see that it is the same repository (if the ledger is gone for good, remove"
                    f" {self.mirror.file.parent}: then it is begun anew)"
                )

    def _begin_with(self, state: str, refs: Mapping[str, str]) -> None:
        """Take in a state instead of the whole history; where it cannot be had, the history."""
        enrolled = refs.get(self.refs.enrolled, "")
        with suppress(GitError, LedgerDamaged):
            self.remote.fetch([state], depth=1)
            self.remote.fetch([enrolled])
            tips = state_of(self.objects.commit_of(state))
            with self.mirror.writing() as change:
                for commit in self.objects.since(tips.get(self.refs.enrolled, ""), ""):
                    enter(change.do, change.many, enrolment_of(self.objects, commit), event=False)
                now = self.clock()
                read_state(self.objects, change.many, state, now=now, lease=self.lease)
                for ref, tip in tips.items():
                    change.do("moved", ref=ref, tip=tip, moved=now - self.lease)

    def _bring(self, logs: Mapping[str, str], moved: list[str], tips: Tips) -> None:
        """Fetch what these refs lead to from where they were followed to."""
        known = {ref: tips[ref][0] for ref in logs if ref in tips and ref != self.refs.ledger}
        if self.log in tips:
            known[self.log] = tips[self.log][0]
        lacking = {ref: oid for ref, oid in known.items() if not self.objects.has(oid)}
        if lacking:
            with suppress(GitError):  # an old server gives no commits but the last; then all come
                self.remote.fetch(lacking.values(), depth=_BACK if self.log in lacking else 1)
                for ref, oid in lacking.items():
                    kept(self.git, ref_part(ref), oid)
        alone = {self.refs.ledger, self.machine}  # of which the last commit is enough
        if self.refs.ledger in logs:
            self.remote.fetch([logs[self.refs.ledger]], depth=1)
        self.remote.fetch([*(oid for ref, oid in logs.items() if ref not in alone), *moved])
        machine = logs.get(self.machine) or tips.get(self.machine, ("",))[0]
        if machine and not self.objects.has(machine):
            self.remote.fetch([machine], depth=1, without_files=True)

    def _follow(self, change: Change, ref: str, known: str, oid: str, now: float) -> None:
        """Take in the ledger's own refs: what it is, and its enrolments."""
        if ref == self.refs.ledger:
            if told(self.objects.commit_of(oid)).get("campaign") != self.campaign:
                raise LedgerError(f"{self.shown}: {ref} is the ledger of another campaign")
        elif ref == self.refs.enrolled:
            for commit in self._since(oid, known):
                enter(change.do, change.many, enrolment_of(self.objects, commit))
        elif ref != self.machine:
            return
        change.do("moved", ref=ref, tip=oid, moved=now)

    def _follow_logs(self, do: Do, tips: Tips, refs: Mapping[str, str], now: float) -> None:
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

    def _mend(self, odd: Mapping[str, str]) -> None:
        with self.mirror.reading() as do:
            bases = {name: (oid, *standing(do, name)[:2]) for name, oid in odd.items()}
            tips = self.mirror.tips(do)
        logs = {ref: tip for ref, (tip, _) in tips.items() if ref.startswith(self.refs.logs)}
        mend(self.remote, self.objects, self.refs, bases, logs)

    def complete(self) -> None:
        """Bring to the branches the results that logs tell of and a remote forgot as it died.
        Raises GitAway, GitDenied."""
        with self.turn:
            with self.mirror.reading() as do:
                tips = self.mirror.tips(do)
            logs = [tip for ref, (tip, _) in tips.items() if ref.startswith(self.refs.logs)]
            complete_results(self.remote, self.objects, logs)

    def _point(self, do: Do, pointed: Mapping[str, str], now: float) -> dict[str, str]:
        """See where the claims point: to what was taken in, or to a heartbeat after that. Those
        that point elsewhere are answered."""
        odd: dict[str, str] = {}
        beats: dict[str, Mapping[str, str]] = {}
        claims = self.mirror.claims(do)
        for fingerprint, oid in pointed.items():
            turn, base, object = claims.get(fingerprint) or standing(do, fingerprint)
            if oid == object:
                continue
            if oid != base:
                if oid not in beats:
                    kind, content = self.objects.read(oid)
                    beats[oid] = json.loads(content)["holds"] if kind == "blob" else {}
                if not base or beats[oid].get(fingerprint) != base:
                    odd[fingerprint], oid = oid, UNSURE
                else:
                    do("beat", fingerprint=fingerprint, expires=now + self.lease)
            do("stand", fingerprint=fingerprint, turn=turn, base=base, object=oid)
        for fingerprint in claims:
            if fingerprint not in pointed:  # compacted away
                do("point", fingerprint=fingerprint, object="")
        return odd

    def last_results(self, do: Do) -> str:
        """The last commit of results that our log tells of, where it is here; else "". The branch
        lacks it where the remote went away while it changed refs."""
        for commit in self.objects.back(self.mirror.tips(do).get(self.log, ("", 0.0))[0], _BACK):
            if found := set(told(commit).get("results", {}).values()):
                if not all(self.objects.has(oid) for oid in found):
                    return ""  # of a mirror that was read anew
                before = {one for oid in found for one in self.objects.commit_of(oid).parents}
                return str((found - before).pop())
        return ""

    def went_through(self, commit: str) -> bool:
        """Whether a push of which nothing was heard did reach the remote."""
        with self.mirror.reading() as do:
            tips = self.mirror.tips(do)
        ours = (tips.get(ref, ("", 0.0))[0] for ref in (self.log, self.refs.enrolled))
        return any(one.oid == commit for oid in ours for one in self.objects.back(oid, _BACK))
