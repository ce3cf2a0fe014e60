"""The part of the time that the chart of attempts shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.dashboard.views import gantt
from benchfleet.dashboard.views.gantt import MAX_ZOOM, Window
from benchfleet.testing import sample_cell
from dashboards import NAME, client_of, every_kind_of_cell


def test_the_whole_time_is_shown_at_first() -> None:
    assert Window().of(100.0, 300.0) == (100.0, 300.0)
    assert Window().query == {}


@pytest.mark.parametrize("at", [0.0, 0.1, 0.5, 0.97, 1.0])
def test_a_window_stays_inside_and_keeps_its_length(at: float) -> None:
    begin, end = Window(zoom=4, at=at).of(100.0, 300.0)
    assert end - begin == pytest.approx(50.0)
    assert 100.0 <= begin < end <= 300.0


def test_one_moves_and_zooms_to_the_ends_and_not_beyond() -> None:
    window = Window()
    for _ in range(20):
        window = window.closer()
    assert window.zoom == MAX_ZOOM
    window = Window(zoom=4)
    assert window.moved(1.0).of(0.0, 400.0) == (300.0, 400.0)
    assert window.moved(-1.0).of(0.0, 400.0) == (200.0, 300.0)
    for _ in range(9):
        window = window.moved(-1.0)
    assert window.of(0.0, 400.0) == (0.0, 100.0)
    assert window.farther().farther().farther().zoom == 1


def test_the_plan_has_bars_on_the_lanes_of_their_slots(tmp_path: Path) -> None:
    with client_of(every_kind_of_cell(tmp_path).campaigns()) as client:
        text = client.get(f"/c/{NAME}/plan").text
        assert "lab1 gpu:0</text>" in text
        assert "runner 1111" not in text  # what runs is on its slot's lane too
        assert "plan?zoom=2" in text
        zoomed = client.get(f"/c/{NAME}/plan", params={"zoom": 64, "at": 0}).text
        assert "The whole time" in zoomed
        assert client.get(f"/c/{NAME}/plan", params={"zoom": 0}).status_code == 422


def test_the_newest_attempts_are_counted_and_lead_to_their_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gantt, "MAX_LISTED", 2)
    monkeypatch.setattr(gantt, "MAX_LANES", 1)
    campaign = every_kind_of_cell(tmp_path)
    campaign.fail(sample_cell(5), host="lab9")
    with client_of(campaign.campaigns()) as client:
        text = client.get(f"/c/{NAME}/plan").text
        (id,) = [one["id"] for one in client.get("/api/cells?q=benchmark-5").json()["cells"]]
    table = text.partition("Newest attempts")[2]
    assert "<small>2 of 5 attempts</small>" in table
    assert table.count('<tr><th scope="row">') == 2
    assert f'<a class="path" href="cell/{id}">' in table
    assert "1 of 2 lanes are drawn" in text
