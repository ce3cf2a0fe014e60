"""Cells that are claimed before a runner asks for them, one for each that it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchfleet.domain.attempt import Claim, Lease, RunnerId

Wanted = tuple[RunnerId, Sequence[str], int]


class Ahead:
    """What one process has claimed and not begun. Not to be used by two threads at once."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._begun: set[str] = set()
        self._wanted: Wanted | None = None  # by the last slot that got nothing

    def __contains__(self, fingerprint: str) -> bool:
        return fingerprint in self._claims

    @property
    def lacks(self) -> bool:
        """Whether more is to be claimed."""
        return bool(self._wanted)

    def take(self, runner: RunnerId, candidates: Sequence[str], limit: int) -> list[Claim]:
        """Those of the candidates that are claimed already; what is lacking is wanted next."""
        held = [name for name in candidates if name in self._claims]
        taken = [self._claims.pop(name) for name in held[:limit]]
        self._begun.update(claim.lease.fingerprint for claim in taken)
        lacking = max(limit, len(self._begun)) - len(self._claims)
        rest = [name for name in candidates if name not in self._begun]
        if lacking > 0 and rest:
            self._wanted = runner, rest, lacking
        return taken

    def wanted(self) -> list[Wanted]:
        """What is to be claimed; it is asked for once."""
        wanted, self._wanted = self._wanted, None
        return [wanted] if wanted else []

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
        self._claims, self._wanted = {}, None
        return leases
