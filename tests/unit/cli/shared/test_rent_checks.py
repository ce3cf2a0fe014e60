"""What is checked before anything is rented."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.cli.shared import rent_checks as checks
from benchfleet.providers.base import ProviderAway

MACHINES = """\
providers: {vast: {url: 'https://example.org'}}
rent: [{name: big, gpu: RTX 4090, max_price: 1}]
"""


def test_offers_of_a_provider_that_is_away_are_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "machines.yaml"
    file.write_text(MACHINES)

    def away(access: object) -> None:
        raise ProviderAway("it cannot be reached")

    monkeypatch.setattr(checks, "open_provider", away)
    found = {check.what: check.finding for check in checks.rent_checks(file)}
    assert found.pop("provider vast") == "it cannot be reached"
    assert set(found) == {"SSH key of rented machines"}
