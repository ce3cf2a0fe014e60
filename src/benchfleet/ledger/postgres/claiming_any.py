"""Claims of whatever cells fit, without a choice: the server orders them."""

from __future__ import annotations

from benchfleet.domain.attempt import Claim, RunnerId
from benchfleet.domain.resource import Offer
from benchfleet.ledger.postgres.claims import Claims, text
from benchfleet.ledger.postgres.connections import Connections
from benchfleet.ledger.postgres.statements import array
from benchfleet.ledger.sql import Clock

AHEAD = 1  # more cells than are wanted that a claim looks at first, since others want them too
AHEAD_MAX = 4096


class ClaimingAny:
    """Claims over some connections."""

    def __init__(
        self,
        connections: Connections,
        claims: Claims,
        *,
        clock: Clock | None,
        lease: float,
        turn: int,
    ) -> None:
        self._connections, self._claims = connections, claims
        self._clock, self._lease, self._turn = clock, lease, turn
        self._ahead = 0  # how many are looked at, where others are quicker

    def claim(self, runner: RunnerId, offer: Offer, limit: int) -> list[Claim]:
        ahead, claims = limit + max(AHEAD, self._ahead), list[Claim]()
        models = offer.models
        while len(claims) < limit:
            rows = self._connections.answer(
                "claim_best",
                [
                    runner.encode(),
                    repr(self._lease).encode(),
                    repr(self._clock()).encode() if self._clock else None,
                    array(models),
                    array(float(weight) for weight in models.values()),
                    None if offer.others is None else repr(float(offer.others)).encode(),
                    b"%d" % offer.gpus,
                    b"%d" % offer.vram,
                    b"%d" % ahead,
                    b"%d" % (limit - len(claims)),
                    b"%d" % self._turn,
                ],
            )
            claims += [
                self._claims.of(int(row[1]), [*map(text, row[6:])], [*map(text, row[2:6])])
                for row in rows
                if row[1] is not None
            ]
            if int(rows[0][0] or 0) < ahead:
                break
            if len(claims) < limit:  # others were quicker
                ahead = min(4 * ahead, AHEAD_MAX + limit)
                self._ahead = ahead - limit
        else:
            self._ahead //= 2
        return claims
