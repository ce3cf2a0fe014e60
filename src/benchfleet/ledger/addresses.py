"""Where a ledger on a server is: its URL as people may see it, and its schema there."""

from __future__ import annotations

import hashlib
import re

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
