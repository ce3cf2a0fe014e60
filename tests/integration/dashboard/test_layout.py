"""In a real browser, texts of the pages stay whole and inside their boxes, however narrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from benchfleet.testing import sample_cell
from browsers import BROWSER, NARROW, WatchedPage
from dashboards import NAME, DashboardCampaign, served_campaign

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium")
CONFIGS = ("dense", "hybrid", "sink-window", "window-128", "window-256", "window-512")
BENCHMARKS = ("lm_eval_recall_choice", "lm_eval_recall_generate", "recall_256")
LINES = """node => {
  const range = document.createRange();
  range.selectNodeContents(node);
  return new Set([...range.getClientRects()].map(one => Math.round(one.top))).size;
}"""
BEGIN_OF_TEXT = """node => {
  const range = document.createRange();
  range.selectNodeContents(node);
  return range.getBoundingClientRect().left;
}"""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> DashboardCampaign:
    campaign = DashboardCampaign(tmp_path_factory.mktemp("campaign"))
    campaign.begin()
    for benchmark in BENCHMARKS:
        for config in CONFIGS:
            campaign.finish(sample_cell(config=config, benchmark=benchmark))
    running = sample_cell(1, model="a-model-of-some-size", benchmark=BENCHMARKS[0])
    campaign.report(campaign.claim(running), 40)
    return campaign


@contextmanager
def opened(
    campaign: DashboardCampaign, browser: Browser, page: str, width: int, *, touch: bool = False
) -> Iterator[Page]:
    with opened_watched(campaign, browser, page, width, touch=touch) as watched:
        yield watched.page


@contextmanager
def opened_watched(
    campaign: DashboardCampaign, browser: Browser, page: str, width: int, *, touch: bool = False
) -> Iterator[WatchedPage]:
    with served_campaign(campaign) as (address, link):
        viewport = {**NARROW, "width": width}
        watched = WatchedPage(browser, address, viewport=viewport, has_touch=touch)
        watched.page.set_default_timeout(60_000)
        watched.page.goto(link)
        watched.page.goto(f"{address}c/{NAME}/{page}")
        yield watched
        watched.check_accessible()
        watched.check_width()
        watched.check()
        watched.context.close()


def test_what_a_slot_runs_stays_in_its_card(campaign: DashboardCampaign, browser: Browser) -> None:
    with opened_watched(campaign, browser, "", 390) as watched:
        for width in (390, 640, 1000, 1200, 1300):
            watched.page.set_viewport_size({"width": width, "height": NARROW["height"]})
            watched.page.reload()
            watched.check_accessible()
            watched.check_width()
            card = watched.page.locator(".card", has=watched.page.locator(".slot")).bounding_box()
            assert card is not None
            for part in watched.page.locator(".slot > span").all():
                box = part.bounding_box()
                assert box is not None
                assert box["x"] + box["width"] <= card["x"] + card["width"], width


def test_boxes_of_tiles_leave_their_numbers_free(
    campaign: DashboardCampaign, browser: Browser
) -> None:
    with opened(campaign, browser, "matrix", 390, touch=True) as page:
        place = page.locator(".matrix td", has=page.locator("input")).first
        box = place.locator("input").bounding_box()
        assert box is not None
        assert place.locator(".tile").evaluate(BEGIN_OF_TEXT) >= box["x"] + box["width"]
        assert place.locator(".tile").evaluate(LINES) == 1


def test_names_break_between_their_words(campaign: DashboardCampaign, browser: Browser) -> None:
    with opened(campaign, browser, "compare", 390) as page:
        names = page.locator("table.grid").first.locator("tbody td:nth-child(2)")
        lines = [name.evaluate(LINES) for name in names.all()]
        assert lines[:2] == [1, 1]  # dense, hybrid
        assert max(lines) == 2  # sink-window


def test_a_box_with_more_to_the_right_fades_out_until_its_end(
    campaign: DashboardCampaign, browser: Browser
) -> None:
    with opened(campaign, browser, "matrix", 390) as page:
        expect(page.locator(".scroll.more")).to_have_count(1)
        page.locator(".scroll").evaluate("box => { box.scrollLeft = box.scrollWidth; }")
        expect(page.locator(".scroll.more")).to_have_count(0)


def test_a_wide_chart_keeps_its_width_on_a_narrow_page(
    campaign: DashboardCampaign, browser: Browser
) -> None:
    pytest.importorskip("altair")
    with opened(campaign, browser, "compare", 390) as page:
        chart = page.locator(".chart", has=page.locator("img[src*=forest]"))
        chart.scroll_into_view_if_needed()
        expect(page.locator(".chart.more img[src*=forest]")).to_have_count(1)
        drawn = chart.locator("img").bounding_box()
        assert drawn is not None
        assert drawn["width"] > 600
