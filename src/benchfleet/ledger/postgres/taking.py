"""The statements that take cells of a choice from a PostgreSQL ledger, with what ends before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchfleet.domain.attempt import RunnerId
from benchfleet.ledger.postgres.claims import text
from benchfleet.ledger.postgres.connections import Answer, Connections
from benchfleet.ledger.postgres.finishing import Ending
from benchfleet.ledger.postgres.statements import Value, numbered, numbers
from benchfleet.ledger.sql import Clock

_FIRST = ("1", "0", "1", "")  # what the first attempt of a cell is told, as in `Taken`


class Known(NamedTuple):
    """What is known of the ledger when cells are taken."""

    enrolment: str
    horizon: int  # what was made to wait again before this transaction


class Taken(NamedTuple):
    """What a claim was answered."""

    claims: Mapping[int, Sequence[str]]  # by ordinal: attempt, tries, token, how it ended last
    texts: Mapping[int, Sequence[str]]  # by ordinal: name, path, spec, terms; not of `first`
    moment: float  # the ledger's time
    enrolment: str
    horizon: int
    known: bool  # else there is what comes first and was not known of, and nothing was taken
    begun: list[int]
    gone: list[int]


class Taking:
    """Takes cells over some connections."""

    def __init__(
        self, connections: Connections, *, clock: Clock | None, lease: float, turn: int
    ) -> None:
        self._connections = connections
        self._clock, self._lease, self._turn = clock, repr(lease).encode(), b"%d" % turn

    def _told(self, runner: RunnerId, known: Known) -> list[Value]:
        """What each statement is told first."""
        now = repr(self._clock()).encode() if self._clock else None
        return [
            *(runner.encode(), self._lease, now),
            *(known.enrolment.encode(), b"%d" % known.horizon),
        ]

    def among(
        self,
        runner: RunnerId,
        known: Known,
        late: Mapping[int, int],
        candidates: Sequence[int],
        limit: int,
    ) -> Taken:
        """The first of the candidates that are free; `late` are those that are known to wait again,
        with the transactions since the horizon that made them."""
        wanted = [numbers(candidates), b"%d" % limit, self._turn]
        told = [*self._told(runner, known), numbers(late), numbers(late.values()), *wanted]
        rows = self._connections.answer("claim_cells", told)
        moment, enrolment, horizon, all_known = map(text, rows[0][:4])
        taken = {int(row[6]): [*map(text, row[7:])] for row in rows if row[6] is not None}
        return Taken(
            claims={ordinal: taken[ordinal][:4] for ordinal in candidates if ordinal in taken},
            texts={ordinal: told[4:] for ordinal, told in taken.items()},
            moment=float(moment),
            enrolment=enrolment,
            horizon=int(horizon),
            known=all_known == "t",
            begun=numbered(rows[0][4]),
            gone=numbered(rows[0][5]),
        )

    def first(self, runner: RunnerId, known: Known, ordinal: int, ending: Ending) -> Taken | None:
        """One that nobody began, where it is free and nothing else is to be learnt; else None."""
        told = [*self._told(runner, known), b"%d" % ordinal, self._turn]
        rows = self._answer("claim_first", "exchange_first", told, ending, one=True)
        return _fresh(rows, {ordinal: _FIRST}, {}, known) if rows else None

    def fresh(
        self,
        runner: RunnerId,
        known: Known,
        candidates: Sequence[int],
        limit: int,
        ending: Ending,
    ) -> Taken | None:
        """The same of several."""
        wanted = [numbers(candidates), b"%d" % limit, self._turn]
        told = [*self._told(runner, known), *wanted]
        rows = self._answer("claim_fresh", "exchange_fresh", told, ending, one=False)
        if not rows:
            return None
        texts = {int(row[0] or 0): [*map(text, row[4:])] for row in rows}
        claims = {number: _FIRST for number in candidates if number in texts}
        return _fresh(rows, claims, texts, known)

    def _answer(
        self, claim: str, exchange: str, told: list[Value], ending: Ending, *, one: bool
    ) -> Answer:
        """What the statement takes, or the other one, which ends attempts too, where some are."""
        ends = ending.values(one)
        if ends is None:
            ending.plainly()
            return self._connections.answer(claim, told)
        rows = self._connections.answer(exchange, [*told, *ends])
        ending.answered(int(rows[0][-1] or 0))
        return [row[:-1] for row in rows if row[0] is not None]


def _fresh(
    rows: Answer,
    claims: Mapping[int, Sequence[str]],
    texts: Mapping[int, Sequence[str]],
    known: Known,
) -> Taken:
    moment, horizon = map(text, rows[0][1:3])
    begun = numbered(rows[0][3]) if len(rows[0]) > 3 else []
    return Taken(claims, texts, float(moment), known.enrolment, int(horizon), True, begun, [])
