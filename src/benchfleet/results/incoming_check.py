"""Results that came from elsewhere, held against the ledger before they become public."""

from __future__ import annotations

import json
import os
from pathlib import Path

from benchfleet.domain.cell import Cell
from benchfleet.errors import ResultsError
from benchfleet.results.disk import read_plain
from benchfleet.results.layout import CELL, LEFT_OUT
from benchfleet.results.read import damage, file_names, sealed, sealed_names, unsealed


def refusal(into: Path, path: str, fingerprint: str, digest: str) -> str:
    """Why the folder ``into/path`` is not the result of the cell that the ledger calls done with
    this digest of its cell.json; ``""`` where it is."""
    if link := _link_to(into, path):
        return f"{link} is a link"
    folder = into / path
    try:
        names = file_names(folder)
        content, seal_digest = sealed(folder)
        if seal_digest != digest:
            return f"its {CELL} is not the one that the ledger has"
        if not content["fingerprint"] == _fingerprint(content.get("cell")) == fingerprint:
            return f"its {CELL} is of another cell"
        named = sealed_names((folder / CELL).read_bytes())
    except (ResultsError, OSError) as error:
        return str(error).replace(
            f"{folder}{os.sep}", "its "
        )  # it is looked for where it came from
    if LEFT_OUT in {*names} - {*named} and (why := _left_out(folder)):
        return why
    if more := unsealed(names, named):
        return f"{more[0]} is not in its seal"
    return damage(folder, content)


def _left_out(folder: Path) -> str:
    """Where the files are that a repository was not given."""
    try:
        left_out = json.loads(read_plain(folder / LEFT_OUT))
        host = next(iter(left_out.values()))["host"]
        files = ", ".join(f"{name} ({one['bytes'] / 1e6:.1f} MB)" for name, one in left_out.items())
    except (OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return ""
    return f"{files} stayed on {host}: too large for the repository"


def has_arrived(into: Path, path: str) -> bool:
    """Whether anything came of this path."""
    return os.path.lexists(into / path) or bool(_link_to(into, path))


def _link_to(into: Path, path: str) -> str:
    """The first part of the path that is a link; ``""`` where none is."""
    folder = into
    for part in path.split("/"):
        folder /= part
        if folder.is_symlink():
            return folder.relative_to(into).as_posix()
    return ""


def _fingerprint(cell: object) -> str:
    try:
        return Cell.from_dict(cell).fingerprint  # type: ignore[arg-type]
    except (LookupError, TypeError, ValueError, AttributeError):
        return ""
