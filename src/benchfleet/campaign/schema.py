"""The JSON Schema of a campaign file, for editors: made of the tables that the readers go by."""

from __future__ import annotations

from typing import Any

from benchfleet.registry import Family, names

from .load import KEYS, REQUIRED
from .shapes import mapping

_FAMILIES: tuple[Family, ...] = ("models", "benchmarks", "attention", "policies")


def campaign_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12; the plugins are those installed here."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "benchfleet campaign",
        **mapping(KEYS, required=REQUIRED),
        "$defs": {family: {"enum": names(family)} for family in _FAMILIES},
    }
