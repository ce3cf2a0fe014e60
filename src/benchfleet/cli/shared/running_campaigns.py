"""The only campaign file of a folder."""

from __future__ import annotations

import re
from pathlib import Path

from benchfleet.errors import BenchfleetError

_CAMPAIGN = re.compile(r"^[\"']?campaign[\"']?\s*[:=]", re.MULTILINE)
_MAX_READ_CHARACTERS = 2**20  # characters; a campaign says its name early


def only_campaign(folder: Path) -> Path:
    """The one campaign file of a folder. Raises BenchfleetError where there is none or are more."""
    files = sorted(file for kind in ("yaml", "yml", "toml") for file in folder.glob(f"*.{kind}"))
    campaigns = [file.relative_to(folder) for file in files if _is_campaign(file)]
    if len(campaigns) == 1:
        return campaigns[0]
    if not campaigns:
        raise BenchfleetError("no campaign file in this folder; name one, such as study.yaml")
    raise BenchfleetError(f"which campaign? name one of {', '.join(map(str, campaigns))}")


def _is_campaign(file: Path) -> bool:
    try:
        with open(file, encoding="utf-8") as opened:
            return _CAMPAIGN.search(opened.read(_MAX_READ_CHARACTERS)) is not None
    except (OSError, ValueError):
        return False
