"""Cells that are claimed before a runner asks for them, one for each that it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchfleet.domain.attempt import Claim, Lease, RunnerId
from benchfleet.domain.resource import Choice, Offer

Wanted = tuple[RunnerId, Offer, int]


class Ahead:
    """What one process has claimed and not begun. Not to be used by two threads at once."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._begun: set[str] = set()
        self._wanted: dict[int, Wanted] = {}  # by the GPUs of the slot

    def __contains__(self, fingerprint: str) -> bool:
        return fingerprint in self._claims

    @property
    def lacks(self) -> bool:
        """Whether more is to be claimed."""
        return bool(self._wanted)

    def take(self, runner: RunnerId, offer: Offer, limit: int) -> list[Claim]:
        """What fits the offer, best first; for what is lacking then it is kept in mind."""
        fit = [claim for claim in self._claims.values() if _fits(claim, offer)]
        taken = sorted(fit, key=lambda claim: _order(claim, offer))[:limit]
        for claim in taken:
            del self._claims[claim.lease.fingerprint]
            self._begun.add(claim.lease.fingerprint)
        lacking = max(limit, len(self._begun)) - len(self._claims)
        if lacking > 0 and offer.gpus not in self._wanted:
            self._wanted[offer.gpus] = runner, _still(offer), lacking
        return taken

    def wanted(self) -> list[Wanted]:
        """What is to be claimed; it is asked for once."""
        wanted, self._wanted = list(self._wanted.values()), {}
        return wanted

    def put(self, claims: Iterable[Claim]) -> None:
        self._claims.update((claim.lease.fingerprint, claim) for claim in claims)

    def leases(self) -> list[Lease]:
        return [claim.lease for claim in self._claims.values()]

    def lose(self, leases: Iterable[Lease]) -> None:
        """Others have these by now."""
        for lease in leases:
            self._claims.pop(lease.fingerprint, None)

    def ended(self, leases: Sequence[Lease]) -> None:
        """A runner is done with these."""
        self._begun.difference_update(lease.fingerprint for lease in leases)

    def clear(self) -> list[Lease]:
        """Want and have nothing any more; what is to be given back."""
        leases = self.leases()
        self._claims, self._wanted = {}, {}
        return leases


def _still(offer: Offer) -> Offer:
    """The offer with its choice as it is now: the runner's own changes while we use it."""
    if offer.among is None:
        return offer
    choice = Choice()
    for fingerprint in offer.among:
        choice.put(fingerprint, offer.among.rank(fingerprint))
    return replace(offer, among=choice)


def _fits(claim: Claim, offer: Offer) -> bool:
    cell = claim.cell
    return (
        cell.need.gpus <= offer.gpus
        and cell.need.vram <= offer.vram
        and (offer.among is None or cell.fingerprint in offer.among)
        and offer.weight(cell.model.load_key) is not None
    )


def _order(claim: Claim, offer: Offer) -> tuple[int, float]:
    cell = claim.cell
    rank = offer.among.rank(cell.fingerprint) if offer.among is not None else 0.0
    return -cell.priority, rank + (offer.weight(cell.model.load_key) or 0.0)
