"""A real browser selects many cells, by mouse, keys and without script, and opens a page early."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from benchfleet.testing import sample_cell
from browsers import BROWSER, NARROW, WatchedPage
from dashboards import (
    NAME,
    DashboardCampaign,
    every_kind_of_cell,
    served_campaign,
    slow_reading,
)

from .conftest import LIMIT_MS

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium")


@pytest.fixture
def campaign(tmp_path: Path) -> DashboardCampaign:
    """Nine cells: 0 and 1 done, 2, 5 and 6 failed, 3 running, 4, 7 and 8 waiting."""
    campaign = every_kind_of_cell(tmp_path)
    for number in (5, 6):
        campaign.fail(sample_cell(number, config="dense"))
    campaign.ledger.enroll([sample_cell(7, config="dense"), sample_cell(8, config="dense")])
    return campaign


def boxes(page: Page) -> Locator:
    return page.locator("input[form=selection]")


def checked(page: Page) -> list[int]:
    """The positions of the boxes that are checked."""
    found = boxes(page).evaluate_all("all => all.map((one, at) => one.checked ? at : -1)")
    return [at for at in found if at >= 0]


def test_cells_are_selected_by_keys_and_ranges_and_retried(
    campaign: DashboardCampaign, browser: Browser
) -> None:
    with served_campaign(campaign) as (address, link):
        watched = WatchedPage(browser, address)
        page = watched.page
        page.set_default_timeout(LIMIT_MS)
        page.goto(link)
        page.goto(f"{address}c/{NAME}/cells")
        bar = page.locator("#selection")
        expect(boxes(page)).to_have_count(9)
        expect(bar).to_be_hidden()

        page.keyboard.press("j")  # the first row
        page.keyboard.press("j")
        page.keyboard.press("x")
        expect(bar).to_contain_text("1 selected")
        page.keyboard.press("Shift+ArrowDown")
        page.keyboard.press("Shift+ArrowDown")
        assert checked(page) == [1, 2, 3]
        page.keyboard.press("k")
        page.keyboard.press("x")
        assert checked(page) == [1, 3]
        boxes(page).nth(5).click()
        boxes(page).nth(8).click(modifiers=["Shift"])
        expect(bar).to_contain_text("6 selected")
        assert checked(page) == [1, 3, 5, 6, 7, 8]
        watched.check_accessible()

        # A refresh keeps what is selected; the question names what would happen.
        campaign.ledger.enroll([sample_cell(9, config="dense")])
        expect(boxes(page)).to_have_count(10)
        assert checked(page) == [1, 3, 5, 6, 7, 8]
        bar.get_by_role("button", name="Retry").click()
        dialog = page.locator("#dialog")
        failed = "2 cells go back to waiting, with all tries. 4 other cells stay as they are."
        expect(dialog).to_contain_text(failed)
        dialog.get_by_text("Leave it").click()
        expect(bar).to_contain_text("6 selected")
        page.keyboard.press("r")
        expect(dialog).to_contain_text(failed)
        dialog.get_by_role("button", name="Retry").click()
        expect(dialog).to_contain_text("2 cells:")
        dialog.get_by_text("Close").click()
        expect(bar).to_be_hidden()
        expect(page.locator(".state", has_text="waiting for a retry")).to_have_count(2)

        # Chips narrow the list and are taken away.
        page.get_by_role("link", name="1 failed").click()
        expect(boxes(page)).to_have_count(1)
        page.get_by_role("link", name="Remove the filter state").click()
        expect(boxes(page)).to_have_count(10)

        # Two cells are compared by sample; j and k go through their questions.
        for number in (0, 1):
            boxes(page).nth(number).check()
        bar.get_by_role("button", name="By sample").click()
        questions = page.locator(".pairs > li")
        expect(questions).to_have_count(3)
        page.keyboard.press("j")
        expect(questions.nth(0)).to_be_focused()
        page.keyboard.press("j")
        expect(questions.nth(1)).to_be_focused()
        page.keyboard.press("k")
        expect(questions.nth(0)).to_be_focused()
        watched.check()


def test_tiles_are_selected_and_cancelled(campaign: DashboardCampaign, browser: Browser) -> None:
    with served_campaign(campaign) as (address, link):
        watched = WatchedPage(browser, address)
        page = watched.page
        page.set_default_timeout(LIMIT_MS)
        page.goto(link)
        page.goto(f"{address}c/{NAME}/matrix")
        page.locator(".tile").first.focus()
        page.keyboard.press("x")
        page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press("Shift+ArrowDown")
        bar = page.locator("#selection")
        expect(bar).to_contain_text("4 selected")  # a rectangle: both sums, and benchmark 1 twice
        expect(bar.get_by_role("button", name="By sample")).to_be_disabled()
        watched.check_accessible()
        bar.get_by_role("button", name="Cancel").click()
        dialog = page.locator("#dialog")
        expect(dialog).to_contain_text("4 cells are cancelled; samples are kept")
        expect(dialog).to_contain_text("1 running cell stops after the sample at hand")
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_contain_text("Ordered by")
        assert len(list(campaign.ledger.cells(states=["cancelled"]))) == 4
        watched.check()


def test_without_script_a_form_asks_and_acts(campaign: DashboardCampaign, browser: Browser) -> None:
    with served_campaign(campaign) as (address, link):
        watched = WatchedPage(browser, address, java_script_enabled=False, viewport=NARROW)
        page = watched.page
        page.set_default_timeout(LIMIT_MS)
        page.goto(link)
        page.goto(f"{address}c/{NAME}/cells?state=failed")
        for number in range(2):
            boxes(page).nth(number).check()
        page.get_by_role("button", name="Retry").click()
        expect(page.locator("#order")).to_contain_text("2 cells go back to waiting")
        page.get_by_role("button", name="Retry").click()
        expect(page.locator("#order")).to_contain_text("2 cells:")
        expect(page).to_have_url(re.compile("/orders$"))
        assert len(campaign.ledger.events(kinds={"retry_asked"})) == 2
        watched.check()


@pytest.mark.parametrize("script", [True, False])
def test_a_page_that_opens_early_counts_the_cells_and_fills_by_itself(
    campaign: DashboardCampaign, browser: Browser, *, script: bool
) -> None:
    with slow_reading(3) as proceed, served_campaign(campaign, read=False) as (address, _):
        watched = WatchedPage(browser, address, java_script_enabled=script)
        page = watched.page
        page.set_default_timeout(LIMIT_MS)
        page.goto(f"{address}c/{NAME}/matrix")
        expect(page.locator("#alert")).to_contain_text("The ledger is being read: 3 cells so far")
        expect(page.locator(".matrix")).to_have_count(0)
        proceed.set()
        expect(page.locator("#alert")).to_have_count(0)
        expect(page.locator(".summary")).to_contain_text("9 cells: 1 model × 2 configs")
        expect(page.get_by_label("config")).to_be_visible()  # not only the live part
        watched.check()


EACH_FRAME = """() => {
  const text = (selector) => (document.querySelector(selector) || {}).textContent || "";
  window.seen = new Set();
  (function look() {
    const failed = (/(\\d+) failed/.exec(text("h1")) || ["", ""])[1];
    window.seen.add(failed + " " + text("[data-count=failed]"));
    requestAnimationFrame(look);
  })();
}"""


def test_heading_and_legend_of_the_overview_change_together(
    campaign: DashboardCampaign, browser: Browser
) -> None:
    with served_campaign(campaign) as (address, _):
        watched = WatchedPage(browser, address)
        page = watched.page
        page.set_default_timeout(LIMIT_MS)
        page.goto(address)
        expect(page.locator("#status")).to_have_class(re.compile("live"))
        page.evaluate(EACH_FRAME)
        for number, total in ((10, "4"), (11, "5"), (12, "6")):
            campaign.fail(sample_cell(number))
            expect(page.locator("[data-failed]")).to_have_text(total)
        expect(page.locator("h1")).to_contain_text("6 failed")
        assert page.evaluate("[...window.seen].sort()") == ["3 3", "4 4", "5 5", "6 6"]
        watched.check()
