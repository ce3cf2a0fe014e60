"""Claims, made of what a PostgreSQL ledger answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from benchfleet.domain.attempt import Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.ledger.postgres.statements import Value
from benchfleet.ledger.rows import CellTexts, cell_of, made


class Claimants:
    """Who claimed what was claimed here and holds, as far as is known."""

    def __init__(self) -> None:
        self._runners: dict[tuple[Fingerprint, int], RunnerId] = {}  # by cell and token

    def note(self, runner: RunnerId, leases: Iterable[Lease]) -> None:
        self._runners.update(((one.fingerprint, one.token), runner) for one in leases)

    def of(self, lease: Lease) -> RunnerId | None:
        return self._runners.get((lease.fingerprint, lease.token))

    def forget(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._runners.pop((lease.fingerprint, lease.token), None)


class Claims:
    """Makes claims, and knows the cells that were enrolled and claimed here."""

    def __init__(self, texts: CellTexts, lease: float) -> None:
        self._texts, self._lease = texts, lease
        self.declared: dict[str, Cell] = {}  # by fingerprint, as they were enrolled last
        self.ordinals: dict[str, int] = {}  # by fingerprint, of what was claimed and has not ended

    def of(self, ordinal: int, texts: Sequence[str], told: Sequence[str]) -> Claim:
        """The claim of a cell: of it `texts` are name, path, spec and terms, and of its attempt
        `told` are number, tries, token and how the one before ended, as JSON or ``""``."""
        name, path, spec, terms = texts
        attempt, tries, token, ended = told
        fingerprint = Fingerprint(name)
        self.ordinals[name] = ordinal
        cell = self.declared.get(fingerprint)  # with all that was worked out of it before
        if not cell or (self._texts.spec(cell), self._texts.terms(cell)) != (spec, terms):
            cell = cell_of(spec, terms)
        after = Outcome.from_dict(json.loads(ended)["outcome"]) if ended else None
        lease = {
            "fingerprint": fingerprint,
            "attempt": int(attempt),
            "token": int(token),
            "expires_in": self._lease,
        }
        claim = {
            "lease": made(Lease, lease),
            "cell": cell,
            "path": path,
            "tries": int(tries),
            "after": after if after and after.retry_in is not None else None,
        }
        return made(Claim, claim)


def text(value: Value) -> str:
    """What crossed the line; ``""`` where nothing did."""
    return value.decode() if value else ""
