"""The fields of a cell that may stand in a script's command, such as ``{seed}``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

FIELDS = (
    "config",
    "config_name",
    "benchmark",
    "result",
    "model",
    "model_path",
    "subset",
    "repeat",
    "seed",
    "limit",
    "scratch",
)
_FIELD = re.compile(r"\{\{(\w+)\}\}|\{([A-Za-z_]\w*)\}")


def check_fields(part: str) -> None:
    """Raises ValueError, with the near one, for a field that there is not."""
    for match in _FIELD.finditer(part):
        field = match[2]
        if field is not None and field not in FIELDS:
            near = get_close_matches(field, FIELDS, n=1)
            hint = f"did you mean {{{near[0]}}}?" if near else f"there are {', '.join(FIELDS)}"
            raise ValueError(
                f"no field {{{field}}}; {hint} (write {{{{{field}}}}} for the braces themselves)"
            )


def filled(part: str, fields: Mapping[str, Any]) -> str:
    """The part with its fields in their places, and doubled braces as single ones."""
    return _FIELD.sub(lambda m: f"{{{m[1]}}}" if m[1] else str(fields[m[2]]), part)


def has_field(part: str) -> bool:
    """Whether anything in it is to be put in its place."""
    return bool(_FIELD.search(part))
