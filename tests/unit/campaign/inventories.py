"""Text as an inventory, or as the mistakes that it has."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from benchfleet.campaign.inventory import Inventory, read_inventory
from benchfleet.campaign.yaml_reader import read_yaml
from benchfleet.errors import CampaignError

FOLDER = Path("/inventories")


def inventory(text: str) -> Inventory:
    return read_inventory(read_yaml(dedent(text)), folder=FOLDER, file_label="machines.yaml")


def mistakes(text: str) -> dict[str, str]:
    with pytest.raises(CampaignError) as caught:
        inventory(text)
    return {mistake.key: mistake.message for mistake in caught.value.mistakes}
