"""How attempts end in a PostgreSQL ledger: several at once, each while its token is the cell's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.domain.state import State
from benchfleet.errors import ClaimLost
from benchfleet.ledger.postgres.claims import Claimants
from benchfleet.ledger.postgres.connections import Connections
from benchfleet.ledger.postgres.statements import Value, array, do, joined, numbers
from benchfleet.ledger.sql import Clock

_JSON = json.JSONEncoder(check_circular=False).encode


class Ending:
    """Attempts that end with a claim, or by themselves where that cannot be."""

    def __init__(self, finishing: Finishing, ended: Sequence[tuple[Lease, Outcome]]) -> None:
        self._finishing, self._ended = finishing, ended
        self.several = len(ended) > 1
        self.refused: Sequence[ClaimLost | None] | None = None if ended else []

    def values(self, one: bool) -> list[Value] | None:
        """What a statement that claims too is told of them: of the one, or of all in arrays; None
        where they are not to end so."""
        if self.refused is not None or any(how.retry_in is not None for _, how in self._ended):
            return None
        if not _all_differ(self._ended):
            return None
        return self._finishing.values(self._ended, one)

    def answered(self, ends: int) -> None:
        """That statement ended so many; where it did not end all, it is asked which."""
        ask, well = self._finishing.refused, ends == len(self._ended)
        self.refused = [None if well else ask(*one) for one in self._ended]

    def plainly(self) -> Sequence[ClaimLost | None]:
        """For each nothing, or why it was refused; those that have not ended end now."""
        if self.refused is None:
            self.refused = self._finishing.finish_all(self._ended)
        return self.refused


class Finishing:
    """Ends attempts; `known` are the numbers of cells that were claimed here, by fingerprint, which
    it takes out, and `claimants` knows who claimed them."""

    def __init__(
        self,
        connections: Connections,
        known: dict[str, int],
        claimants: Claimants,
        *,
        clock: Clock | None,
        turn: int,
    ) -> None:
        self._connections, self._known, self._claimants = connections, known, claimants
        self._clock, self._turn = clock, b"%d" % turn

    def _asked(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        return self._connections.asked(lambda c: do(c, name, **values).fetchall())

    def finish_all(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        """End several attempts in one transaction: for each nothing, or why it was refused."""
        if not ended:
            return []
        clock = repr(self._clock()).encode() if self._clock else None
        if len(ended) == 1 or not _all_differ(ended):  # to go through arrays takes a third longer
            return [self._finish_one(*one, clock) for one in ended]
        order = sorted(range(len(ended)), key=lambda number: ended[number][0].fingerprint)
        some = [ended[number] for number in order]
        waits = array([how.retry_in or None for _, how in some])
        *first, charges, hows, claimants = self._columns(some)
        told = [*first, waits, charges, hows, clock, self._turn, claimants]
        rows = self._connections.answer("finish_cells", told)
        found = {place for (place,) in rows}
        refused: list[ClaimLost | None] = [None] * len(ended)
        for place, number in enumerate(order, start=1):
            if b"%d" % place not in found:
                refused[number] = self.refused(*ended[number])
        return refused

    def values(self, ended: Sequence[tuple[Lease, Outcome]], one: bool) -> list[Value]:
        """What a statement that claims too is told of those that end."""
        if one:
            ((lease, outcome),) = ended
            (ordinal,) = self._ordinals([lease.fingerprint])
            token, attempt, state, _, charge, how = _facts(lease, outcome)
            claimant = self._claimants.of(lease)
            values = (ordinal, token, attempt, state, charge, how, claimant)
            return [_wire(value) for value in values]
        return self._columns(sorted(ended, key=lambda pair: pair[0].fingerprint))

    def _columns(self, ended: Sequence[tuple[Lease, Outcome]]) -> list[Value]:
        """What ends several attempts, as the statements take it; no cell has the number 0."""
        ordinals = self._ordinals([lease.fingerprint for lease, _ in ended])
        return [
            numbers(ordinal or 0 for ordinal in ordinals),
            numbers(lease.token for lease, _ in ended),
            numbers(lease.attempt for lease, _ in ended),
            joined(_becomes(how) for _, how in ended),
            numbers(how.charged for _, how in ended),
            joined(_JSON(how.to_dict()) for _, how in ended),
            array(self._claimants.of(lease) for lease, _ in ended),
        ]

    def _finish_one(self, lease: Lease, outcome: Outcome, clock: Value) -> ClaimLost | None:
        ordinal = self._known.pop(lease.fingerprint, None)
        if ordinal is None:
            ordinal = self._ordinals([lease.fingerprint])[0]
        values = [_wire(value) for value in (ordinal, *_facts(lease, outcome))]
        claimant = _wire(self._claimants.of(lease))
        done = self._connections.answer("finish_cell", [*values, clock, self._turn, claimant])
        return None if done else self.refused(lease, outcome)

    def _ordinals(self, fingerprints: Sequence[str]) -> list[int | None]:
        """The numbers of cells, of which those claimed here are known; None of an unknown one."""
        known = {name: self._known.pop(name, None) for name in fingerprints}
        other = [name for name, ordinal in known.items() if ordinal is None]
        if other:
            known |= dict(self._asked("ordinals", among=other))
        return [known[name] for name in fingerprints]

    def refused(self, lease: Lease, outcome: Outcome) -> ClaimLost | None:
        """Why a lease ends nothing, unless it has ended its attempt so already."""
        held = self._asked("held", fingerprint=lease.fingerprint)
        if not held:
            return ClaimLost(f"the ledger knows no cell {lease.fingerprint[:8]}")
        token, ended_token, runner, finished = held[0]
        name = f"attempt {lease.attempt} of cell {lease.fingerprint[:8]}"
        if token == lease.token > ended_token:
            return ClaimLost(
                f"{name} holds no longer: the server lost that it was claimed,"
                f" and {runner} claimed it since"
            )
        if ended_token != lease.token:
            return ClaimLost(
                f"{name} holds no longer: its token is {lease.token}, the cell's is {token}"
            )
        had = json.loads(finished)["outcome"]
        if (had["state"], had["digest"]) != (outcome.state, outcome.digest):
            return ClaimLost(f"{name} has ended already, as {had['state']}")
        return None


def _all_differ(ended: Sequence[tuple[Lease, Outcome]]) -> bool:
    """Whether no cell is named twice: of two outcomes the first counts."""
    return len({lease.fingerprint for lease, _ in ended}) == len(ended)


def _facts(lease: Lease, outcome: Outcome) -> tuple[str | float | None, ...]:
    """What ends an attempt, as a statement for one takes it."""
    return (
        lease.token,
        lease.attempt,
        _becomes(outcome),
        outcome.retry_in or None,
        int(outcome.charged),
        _JSON(outcome.to_dict()),
    )


def _becomes(outcome: Outcome) -> State:
    return outcome.state if outcome.retry_in is None else "pending"


def _wire(value: str | float | None) -> bytes | None:
    return None if value is None else str(value).encode()
