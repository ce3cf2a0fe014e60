"""How the sample of a document of lm-eval is known: in a run here, in exports, and in imports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .canonical import content_digest

OWN_ID = "benchfleet_id"  # the field of a sample in lm-eval's layout that has its id here


def id_of_document(number: int | str, columns: Mapping[str, Any]) -> str:
    """Its number, and a digest of its columns as JSON has them."""
    return f"{number}-{content_digest(columns)[:8]}"
