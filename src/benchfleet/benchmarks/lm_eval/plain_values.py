"""Values of lm-eval's documents as JSON has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """`value` as JSON has it; what JSON has no word for becomes text."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a number of numpy's
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(inner) for inner in value]
    return str(value)


def columns_of(doc: Any) -> dict[str, Any]:
    """The columns of a document, as a record has them."""
    return {str(name): plain(value) for name, value in dict(doc).items()}
