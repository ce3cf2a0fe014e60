"""In a real browser, pages of whole results follow the campaign, or say that they are older."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from benchfleet.testing import sample_cell
from browsers import BROWSER, WatchedPage
from dashboards import NAME, DashboardCampaign, every_kind_of_cell, served_campaign

from .conftest import LIMIT_MS

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium")
AFTER_A_CHANGE = """() => document.addEventListener(
  "benchfleet:changes", () => { document.body.dataset.changed = "yes"; }
)"""
WAITING = sample_cell(3)


@pytest.fixture
def campaign(tmp_path: Path) -> DashboardCampaign:
    return every_kind_of_cell(tmp_path)


@contextmanager
def opened(campaign: DashboardCampaign, browser: Browser, page: str) -> Iterator[Page]:
    """A page that has had a message of the server."""
    with served_campaign(campaign) as (address, _):
        watched = WatchedPage(browser, address)
        watched.page.set_default_timeout(LIMIT_MS)
        watched.page.goto(f"{address}c/{NAME}/{page}")
        expect(watched.page.locator("#status")).to_have_class(re.compile("live"))
        yield watched.page
        watched.check_accessible()
        watched.check()


def test_the_page_of_costs_changes_when_a_cell_ends(
    campaign: DashboardCampaign, browser: Browser
) -> None:
    with opened(campaign, browser, "cost") as page:
        attempts = page.get_by_role("row", name="lab1").get_by_role("cell").first
        expect(attempts).to_have_text("3")
        campaign.finish(sample_cell(20))
        expect(attempts).to_have_text("4")


def test_the_page_of_a_race_is_live(campaign: DashboardCampaign, browser: Browser) -> None:
    with opened(campaign, browser, "race") as page:
        expect(page.locator("#live h1")).to_have_text("Race")


@pytest.mark.parametrize("path", ["compare", "manifest"])
def test_a_page_that_is_not_live_says_that_it_is_older(
    campaign: DashboardCampaign, browser: Browser, path: str
) -> None:
    with opened(campaign, browser, path) as page:
        newer = page.locator("#newer")
        expect(newer).to_be_hidden()
        page.evaluate(AFTER_A_CHANGE)
        campaign.report(campaign.claim(WAITING), 40)  # no result
        expect(page.locator("body")).to_have_attribute("data-changed", "yes")
        expect(newer).to_be_hidden()
        campaign.finish(sample_cell(21))
        expect(newer).to_be_visible()
        status = page.locator("#status")
        expect(status).to_contain_text(re.compile(r"^\s*\d+ s old\s*$"))
        expect(status).not_to_have_class(re.compile("live"))
        newer.get_by_role("link").click()
        expect(newer).to_be_hidden()
        expect(status).to_have_class(re.compile("live"))
        expect(page.locator("main")).to_contain_text("benchmark-21")


def test_a_refresh_that_is_refused_leaves_the_page_and_is_tried_again(
    campaign: DashboardCampaign, browser: Browser
) -> None:
    with opened(campaign, browser, "cost") as page:
        attempts = page.get_by_role("row", name="lab1").get_by_role("cell").first
        page.route("**/cost", lambda route: route.fulfill(status=503, body='{"detail": "busy"}'))
        with page.expect_response("**/cost"):
            campaign.finish(sample_cell(20))
        expect(attempts).to_have_text("3")
        page.unroute("**/cost")
        expect(attempts).to_have_text("4")
