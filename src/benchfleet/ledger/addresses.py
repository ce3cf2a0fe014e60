"""A ledger's URL: taken apart, as people may see it, and what is usual where it leads."""

from __future__ import annotations

import hashlib
import re

from benchfleet import registry
from benchfleet.errors import UnknownName
from benchfleet.ledger.base import DEFAULT_LEASE

_NAME_MAX = 63  # bytes of an identifier in PostgreSQL


def schema_of(campaign: str) -> str:
    """The name of the schema that a campaign's ledger has to itself."""
    plain = re.sub(r"[^a-z0-9_]", "_", campaign)
    name = f"benchfleet_{plain}"
    if plain != campaign or len(name) > _NAME_MAX:
        digest = hashlib.sha256(campaign.encode()).hexdigest()[:8]
        name = f"{name[: _NAME_MAX - 9]}_{digest}"
    return name


def shown_url(url: str) -> str:
    """The URL as people may see it: without a password."""
    without = re.sub(r"(//[^:@/?]*):.*@", r"\1@", url)
    return re.sub(r"(?i)([?&])password=[^&]*&?", r"\1", without).rstrip("?&")


def split_url(url: str) -> tuple[str, str]:
    """``sqlite:///abs/ledger.db``, ``sqlite:rel.db``, a bare path, or ``postgresql://host/db`` as
    scheme and rest. Raises UnknownName for a scheme that no ledger has."""
    scheme, colon, rest = url.partition(":")
    if not colon or "/" in scheme:
        return "sqlite", url
    if scheme not in registry.names("ledgers"):
        raise UnknownName(registry.no_such("ledgers", scheme))
    rest = rest.removeprefix("//")
    if scheme == "sqlite" and rest.startswith("//"):  # sqlite:////abs/ledger.db, as others write it
        rest = "/" + rest.lstrip("/")
    return scheme, rest


def surely_differ(one: str, other: str) -> bool:
    """Whether two addresses, their paths absolute, lead to two ledgers. A server may be known by
    several addresses, so two of one kind may be the same."""
    kinds = [_kind(split_url(address)[0]) for address in (one, other)]
    return one != other and (kinds[0] != kinds[1] or "sqlite" in kinds)


def _kind(scheme: str) -> str:
    return "postgresql" if scheme == "postgres" else scheme.partition("+")[0]


def usual_lease(url: str) -> float:
    """Seconds of a lease in this ledger: longer where a heartbeat is dear."""
    if not url:
        return DEFAULT_LEASE
    kind = registry.load("ledgers", split_url(url)[0])
    return float(getattr(kind, "usual_lease", DEFAULT_LEASE))
