"""How a handle of a PostgreSQL ledger claims: which cells it names, and what it learns by that."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import islice, starmap
from typing import Any
from weakref import WeakKeyDictionary, proxy

from benchfleet.domain.attempt import Claim, Lease, Outcome, RunnerId
from benchfleet.domain.resource import Choice, Offer
from benchfleet.errors import ClaimLost
from benchfleet.ledger.postgres.choices import ChosenCells, Key, Lane, Waiting, sort_key
from benchfleet.ledger.postgres.claiming_any import AHEAD, AHEAD_MAX, ClaimingAny
from benchfleet.ledger.postgres.claims import Claims, text
from benchfleet.ledger.postgres.connections import Connections
from benchfleet.ledger.postgres.finishing import Ending, Finishing
from benchfleet.ledger.postgres.shares import Asked, Share
from benchfleet.ledger.postgres.statements import do, numbers
from benchfleet.ledger.postgres.taking import Known, Taken, Taking
from benchfleet.ledger.postgres.together import Together
from benchfleet.ledger.sql import Clock

_FEW = 10_000  # chosen cells that are asked for by name, rather than among all that wait; or
_PART = 5  # as small a part of all cells as that: a name costs as much as so many in a row
_READ = 64  # cells that are read before they are claimed one by one
_SOON = 1.0  # seconds by which our idea of the server's time may be wrong
_Ended = tuple[Lease, Outcome]
_Wanted = tuple[RunnerId, Offer, int, Sequence[_Ended]]
_Exchanged = tuple[Sequence[ClaimLost | None], Sequence[Claim]]


class Claiming:
    """Claims over some connections, and what is known from one to the next: the order of each
    choice, and which cells wait again."""

    def __init__(
        self,
        connections: Connections,
        claims: Claims,
        finishing: Finishing,
        *,
        clock: Clock | None,
        lease: float,
        turn: int,
    ) -> None:
        self._connections, self.claims, self._finishing = connections, claims, finishing
        self._clock = clock
        self._taking = Taking(connections, clock=clock, lease=lease, turn=turn)
        self._any = ClaimingAny(connections, self.claims, clock=clock, lease=lease, turn=turn)
        self._claim = Together(self._claim_all)
        self._chosen: WeakKeyDictionary[Choice, ChosenCells] = WeakKeyDictionary()
        self._lanes: dict[int, Lane] = {}
        self._enrolment = ""  # which one `_chosen` and `_lanes` are of
        self._returned: dict[int, Waiting] = {}  # begun before, and waiting again
        self._horizon = 0  # what was made to wait again before this transaction is known
        self._late: dict[int, int] = {}  # what is known since, with its transaction, by ordinal
        self._read: dict[int, Sequence[str]] = {}  # what cells are that may be claimed next
        self._share = Share(connections, clock)
        self._ahead = 0  # how many are looked at, where others are quicker
        self._offset = 0.0  # seconds that the ledger's clock was ahead of our monotonic one

    def claim(self, runner: RunnerId, offer: Offer, limit: int) -> Sequence[Claim]:
        return self._claim((runner, offer, limit, ()))[1]

    def exchange(
        self, ended: Sequence[_Ended], runner: RunnerId, offer: Offer, limit: int
    ) -> _Exchanged:
        """End attempts, and claim."""
        return self._claim((runner, offer, limit, ended))

    def _claim_all(self, asked: Sequence[_Wanted]) -> Sequence[_Exchanged | Exception]:
        """Claims for several slots: those of a runner that offer the same are one claim, and what
        ends in them ends together."""
        if len(asked) == 1:
            return [self._claim_one(*asked[0])]
        told: list[_Exchanged | Exception] = [([], []) for _ in asked]
        left = list(range(len(asked)))
        while left:
            runner, offer, _, _ = asked[left[0]]
            alike = [number for number in left if asked[number][:2] == (runner, offer)]
            left = [number for number in left if number not in alike]
            limit = sum(asked[number][2] for number in alike)
            ended = [one for number in alike for one in asked[number][3]]
            try:
                ending, some = self._claim_one(runner, offer, limit, ended)
            except Exception as error:  # noqa: BLE001 - raised where it was asked for
                for number in alike:
                    told[number] = error
            else:
                refused, claims = iter(ending), iter(some)
                for number in alike:
                    _, _, most, ends = asked[number]
                    told[number] = list(islice(refused, len(ends))), list(islice(claims, most))
        return told

    def _claim_one(
        self, runner: RunnerId, offer: Offer, limit: int, ended: Sequence[_Ended]
    ) -> _Exchanged:
        ending = Ending(self._finishing, ended)
        if offer.among is None:
            return ending.plainly(), self._any.claim(runner, offer, limit)
        claims = self._claim_chosen(runner, offer, offer.among, limit, ending)
        return ending.plainly(), claims

    def _claim_chosen(
        self, runner: RunnerId, offer: Offer, choice: Choice, limit: int, ending: Ending
    ) -> list[Claim]:
        self._share.claims()
        ahead, claims = max(limit + AHEAD, self._ahead), list[Claim]()
        while len(claims) < limit:
            chosen = self._brought_up(choice)
            wanted, more = limit - len(claims), True
            again = self._again(choice, offer)
            shared = None
            if self._ahead and not again:  # others were quicker lately
                shared = self._take_own(runner, chosen, offer, wanted, ending)
            taken = shared
            if taken is None:
                candidates, more = self._candidates(chosen, offer, ahead, again)
                if candidates and not again:
                    taken = self._take_fresh(runner, chosen, candidates, wanted, ending)
            if taken is None:
                taken = self._take_among(runner, candidates, wanted, ending)
            self._offset = taken.moment - time.monotonic()
            if taken.enrolment != self._enrolment:
                self._look_again()
                continue
            before, self._horizon = self._horizon, taken.horizon
            chosen.begun(taken.begun)
            chosen.begun(taken.claims)
            for ordinal in (*taken.gone, *taken.claims):
                self._returned.pop(ordinal, None)
            if not taken.known:
                self._wait_again(before)
                continue
            claims += self._claims(taken)
            if shared:
                continue
            # Others go on: fewer are looked at by and by.
            most = self._share.ahead(limit) or AHEAD_MAX
            self._ahead = max(self._ahead * 7 // 8, min(most, 4 * len(taken.begun)))
            if not more or (ahead >= AHEAD_MAX and not (taken.claims or taken.begun)):
                break
            ahead = min(4 * ahead, AHEAD_MAX)
        return claims

    def _wait_again(self, since: int) -> None:
        """Learn what was made to wait again from that transaction on."""
        news = self._connections.asked(lambda c: do(c, "claim_news", since=str(since)).fetchall())
        if self._strange(news):
            return
        for *cell, turned in news:
            waiting = Waiting(*cell)
            self._returned[waiting.ordinal] = waiting
            self._late[waiting.ordinal] = turned

    def _take_fresh(
        self,
        runner: RunnerId,
        chosen: ChosenCells,
        candidates: Sequence[int],
        limit: int,
        ending: Ending,
    ) -> Taken | None:
        """Claim the first of the candidates that are free, which nobody began as far as we know;
        None where there is more to learn."""
        known, taken = Known(self._enrolment, self._horizon), None
        if limit == 1 and not self._ahead and not ending.several:  # nobody was quicker lately
            self._read_ahead(candidates[0], chosen.next(_READ))
            taken = self._taking.first(runner, known, candidates[0], ending)
        return taken or self._taking.fresh(runner, known, candidates, limit, ending)

    def _take_among(
        self, runner: RunnerId, candidates: Sequence[int], limit: int, ending: Ending
    ) -> Taken:
        """Claim the first of the candidates that are free, and learn all that there is."""
        ending.plainly()
        self._late = {
            ordinal: turned for ordinal, turned in self._late.items() if turned >= self._horizon
        }
        known = Known(self._enrolment, self._horizon)
        return self._taking.among(runner, known, self._late, candidates, limit)

    def _take_own(
        self, runner: RunnerId, chosen: ChosenCells, offer: Offer, limit: int, ending: Ending
    ) -> Taken | None:
        """Claim from this handle's share; None where it has none, or there is more to learn."""
        share = self._share.next(Asked(runner, chosen, offer, self._lanes, limit))
        if self._share.runners == 1:
            self._ahead = 0
        if not share:
            return None
        known = Known(self._enrolment, self._horizon)
        if limit == 1 and self._share.owns(share[0]) and not ending.several:
            self._read_ahead(share[0], share[1:])
            taken = self._taking.first(runner, known, share[0], ending)
            if taken or len(share) == 1:
                return taken
        return self._taking.fresh(runner, known, share, limit, ending)

    def _read_ahead(self, ordinal: int, then: Iterable[int]) -> None:
        """Read what that cell is, and those after it, unless it is known: a claim of one cell that
        says so itself takes longer than its share of such a read."""
        if ordinal not in self._read:
            rows = self._connections.answer("texts", [numbers([ordinal, *then])])
            self._read = {int(row[0] or 0): [*map(text, row[1:])] for row in rows}

    def _claims(self, taken: Taken) -> list[Claim]:
        return [
            self.claims.of(ordinal, taken.texts.get(ordinal) or self._read.pop(ordinal), told)
            for ordinal, told in taken.claims.items()
        ]

    def _look_again(self) -> None:
        """Forget what was read of cells and lanes."""
        self._chosen.clear()
        self._read.clear()
        self._returned.clear()
        self._late.clear()
        self._horizon = 0
        rows = self._connections.asked(lambda c: do(c, "lanes").fetchall())
        self._enrolment = rows[0][0]
        self._lanes = {
            number: Lane(load_key=load_key, gpus=gpus, vram=vram)
            for _, number, load_key, gpus, vram in rows
            if number is not None
        }

    def _brought_up(self, choice: Choice) -> ChosenCells:
        """The choice's cells that wait, as it is now."""
        if not self._enrolment:
            self._look_again()
        chosen = self._chosen.get(choice)
        version = choice.version
        if chosen is None:
            rows = self._fresh(list(choice) if self._is_small(choice) else None)
            if self._strange(rows):
                return self._brought_up(choice)
            chosen = self._chosen[choice] = ChosenCells(choice=proxy(choice), version=version)
            chosen.fill(starmap(Waiting, rows))
        elif chosen.version < version:
            rows = self._fresh(list(dict.fromkeys(choice.changed(chosen.version))))
            if self._strange(rows):
                return self._brought_up(choice)
            chosen.put(starmap(Waiting, rows))
            chosen.version = version
        return chosen

    def _is_small(self, choice: Choice) -> bool:
        if len(choice) <= _FEW:
            return True
        ((last,),) = self._connections.asked(lambda c: do(c, "last_ordinal").fetchall())
        return _PART * len(choice) <= int(last)

    def _fresh(self, among: list[str] | None) -> list[tuple[Any, ...]]:
        """The cells that nobody began yet."""
        if among is None:
            return self._connections.asked(lambda c: do(c, "fresh").fetchall())
        return self._connections.asked(lambda c: do(c, "fresh_among", among=among).fetchall())

    def _strange(self, rows: Iterable[Sequence[Any]]) -> bool:
        """Whether cells are in lanes that came since we looked; then we looked again."""
        if all(row[2] in self._lanes for row in rows):
            return False
        self._look_again()
        return True

    def _again(self, choice: Choice, offer: Offer) -> list[Key]:
        """The cells that were begun before and may be ready, which the ledger's clock decides."""
        if not self._returned:
            return []
        soon = _SOON + (self._clock() if self._clock else self._offset + time.monotonic())
        return [
            sort_key(cell, choice, weight)
            for cell in self._returned.values()
            if cell.fingerprint in choice
            and (cell.ready is None or cell.ready <= soon)
            and (weight := self._lanes[cell.lane].weight(offer)) is not None
        ]

    def _candidates(
        self, chosen: ChosenCells, offer: Offer, ahead: int, again: Sequence[Key]
    ) -> tuple[list[int], bool]:
        """The first cells to try, and whether there are more: some that nobody began, and all of
        those that were begun before."""
        fresh = chosen.first(offer, self._lanes, ahead + 1)
        more = len(fresh) > ahead
        if more:  # what comes after all of those is not to be taken before the next of them
            again = [key for key in again if key < fresh[ahead]]
        ordered = sorted([*fresh[:ahead], *again]) if again else fresh[:ahead]
        return [int(key[2]) for key in dict.fromkeys(ordered)], more
