"""Reading published results; writes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchfleet.errors import ResultsError
from benchfleet.results import layout as names
from benchfleet.results.write import read_samples


def sample_scores(folder: Path) -> dict[str, float]:
    """Each sample's score by its id, where the benchmark scores sample by sample."""
    records = read_samples(folder / names.SAMPLES).values()
    return {record["id"]: float(record["score"]) for record in records if "score" in record}


def sealed(folder: Path) -> tuple[dict[str, Any], str]:
    """A folder's cell.json and its digest. Raises ResultsError where there is none to read."""
    try:
        content = (folder / names.CELL).read_bytes()
        found = json.loads(content)
    except (OSError, ValueError) as error:
        raise ResultsError(f"{folder / names.CELL} cannot be read: {error}") from error
    if not isinstance(found, dict) or "fingerprint" not in found:
        raise ResultsError(f"{folder / names.CELL} is no cell of benchfleet")
    return found, hashlib.sha256(content).hexdigest()


def published_folders(root: Path) -> Iterator[Path]:
    """Every published folder below a campaign's folder; links are not followed."""
    for pattern in ("*/*/*", "*/*/*/*"):
        for file in sorted(root.glob(f"{pattern}/{names.CELL}")):
            relative = file.relative_to(root)
            inside = [root.joinpath(*relative.parts[: n + 1]) for n in range(len(relative.parts))]
            if relative.parts[0].startswith(".") or any(part.is_symlink() for part in inside):
                continue
            yield file.parent
