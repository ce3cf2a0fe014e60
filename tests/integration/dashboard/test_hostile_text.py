"""Text that would do harm on a page is only shown, wherever it comes from."""

from __future__ import annotations

import re
from pathlib import Path

from benchfleet.dashboard.render import PAGES
from benchfleet.testing import sample_cell
from dashboards import TABS, DashboardCampaign, client_of, text_of

HOSTILE = (
    "<img src=x onerror=alert(1)>\u202e\x1b[31m\"' {{7*7}} </script>javascript:alert(1)"
    "\x1b]8;;javascript:alert(2)\x1b\\click\x1b]8;;\x1b\\\x9b\x00\u2066"
)
HOSTILE_NAME = re.sub(r"[\x00-\x1f\x7f-\x9f]", "", HOSTILE)  # names with these are refused
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def test_hostile_text_is_inert_wherever_it_comes_from(tmp_path: Path) -> None:
    campaign = DashboardCampaign(tmp_path)
    campaign.begin(host=HOSTILE)
    campaign.finish(sample_cell(1, config=HOSTILE_NAME, model=HOSTILE_NAME), answer=HOSTILE)
    campaign.finish(sample_cell(1, config="b" + HOSTILE_NAME, model=HOSTILE_NAME), answer=HOSTILE)
    campaign.fail(sample_cell(2, subset=HOSTILE_NAME), message=HOSTILE)
    campaign.fail(sample_cell(4, model=HOSTILE_NAME), message=HOSTILE, host=HOSTILE)
    campaign.report(campaign.claim(sample_cell(3, phase=HOSTILE)), 40)
    with client_of(campaign.campaigns()) as client:
        answer = client.get("/api/cells")
        cells = answer.json()["cells"]
        assert not CONTROLS.search(answer.text)
        done = [one["id"] for one in cells if one["state"] == "success"]
        pages = [f"cell/{one['id']}?tab={tab}" for one in cells for tab in TABS]
        pages += [f"samples?cell={done[0]}&cell={done[1]}", "matrix?swap=true", "manifest"]
        pages += [f"order?verb=retry&cell={one['id']}" for one in cells]
        for page in ("", *list(PAGES)[1:], "cells", *pages):
            text = text_of(client, page)
            assert "<img src=x" not in text, page
            assert not CONTROLS.search(re.sub(r'value="[^"]*"', "", text)), page  # of filters
            assert "49" not in re.findall(r"\{\{7\*7\}\}|>49<", text), page
            assert text.count("</script>") == text.count("<script"), page
            assert not re.search(r'(href|src|action)="\s*javascript:', text), page
        charts = re.findall(r'src="(compare/\w+\.svg[^"]*)"', text_of(client, "compare"))
        assert charts
        for chart in charts:
            text = text_of(client, chart)
            assert "<img" not in text, chart
            assert not CONTROLS.search(text), chart
