"""The JSON Schema of a campaign file, for editors: made of the tables that the readers go by."""

from __future__ import annotations

from typing import Any

from benchfleet.registry import Family, names

from .load import KEYS, REQUIRED
from .schema_types import mapping

_FAMILIES: tuple[Family, ...] = ("models", "benchmarks", "attention", "engines", "policies")

# What a matrix must have where no phase brings axes of its own.
_WHOLE = {
    "type": "object",
    "required": ["models", "benchmarks"],
    "properties": {"models": {"type": "array"}, "benchmarks": {"type": "array"}},
}


def campaign_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12; the plugins are those installed here."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "benchfleet campaign",
        **mapping(KEYS, required=REQUIRED),
        "if": {"required": ["phases"], "properties": {"phases": {"type": "array"}}},
        "else": {"required": ["matrix"], "properties": {"matrix": _WHOLE}},
        "$defs": {family: {"enum": names(family)} for family in _FAMILIES},
    }
