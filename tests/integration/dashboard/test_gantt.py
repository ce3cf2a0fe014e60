"""The part of the time that the chart of attempts shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.dashboard.views.gantt import MAX_ZOOM, Window
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
