"""The static site of a campaign."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from benchfleet.dashboard.export import export
from benchfleet.errors import BenchfleetError
from dashboards import NAME, every_kind_of_cell


def test_an_export_has_every_page_and_no_link_leads_nowhere(tmp_path: Path) -> None:
    campaigns = every_kind_of_cell(tmp_path / "campaign").campaigns()
    campaign = campaigns.get(NAME)
    assert campaign is not None
    site = tmp_path / "site"
    written = export(campaign, site)
    assert (written.cell_pages, written.cells) == (5, 5)
    assert export(campaign, site).pages == written.pages  # over the earlier one
    assert "2 of 5 cells done" in (site / "index.html").read_text()
    assert len((site / "cells.csv").read_text().splitlines()) == 6
    used: set[Path] = set()
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert "verb=" not in text
        assert "read-only" not in text
        assert 'type="checkbox" form="selection"' not in text
        for address in re.findall(r'(?:href|src|action)="([^"]*)"', text):
            assert not address.startswith(("/", "http")), page
            file = unquote(address.partition("#")[0].partition("?")[0])
            assert not file or (page.parent / file).is_file(), (page, address)
            used.add((page.parent / file).resolve())
    assert {file.resolve() for file in (site / "static").iterdir()} <= used
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").touch()
    with pytest.raises(BenchfleetError, match="files of something else"):
        export(campaign, other)
    campaigns.stop()
