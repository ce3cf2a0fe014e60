"""Runs a capacity search: one load point after the other, each with samples of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchfleet.benchmarks.serving.point import Measured, PointRunner
from benchfleet.benchmarks.serving.settings import Settings
from benchfleet.serving.capacity import (
    MAX_EXTENSIONS,
    Judgement,
    Point,
    Verdict,
    capacity,
    conclusion,
    judge,
    next_level,
)
from benchfleet.serving.client_bound import client_bound
from benchfleet.serving.load_run import Second
from benchfleet.serving.metrics import Load, has_answers
from benchfleet.serving.request import Request
from benchfleet.serving.slo import Slo
from benchfleet.serving.window import steady_window


class CapacitySearch:
    """Measures points until the search ends. Points that earlier attempts decided are reused."""

    def __init__(
        self, settings: Settings, runner: PointRunner, earlier: Mapping[str, Measured]
    ) -> None:
        if settings.slo is None:
            raise ValueError("a search needs a limit")
        self._settings, self._runner, self._slo = settings, runner, settings.slo
        self._earlier = dict(earlier)
        self.points: list[Point] = []
        self.measured: dict[float, Measured] = {}

    def run(self) -> None:
        """Measure until no further load needs to be."""
        settings = self._settings
        while True:
            verdicts = {point.level: point.verdict for point in self.points}
            level = next_level(
                verdicts,
                first=settings.first,
                most=settings.most,
                whole=settings.search == "concurrency",
            )
            if level is None:
                return
            self.points.append(self._measure(level))

    @property
    def capacity(self) -> float:
        """The highest load that passed; 0 if none did."""
        return capacity(self.points)

    @property
    def is_answered(self) -> bool:
        """Whether the server answered at any load."""
        load_at = self._settings.load_at
        return any(has_answers(one.requests, load_at(at)) for at, one in self.measured.items())

    @property
    def conclusion(self) -> str:
        """The result in words."""
        return conclusion(self.points)

    def _measure(self, level: float) -> Point:
        load, name = self._settings.load_at(level), point_name(self._settings.search, level)
        measured = self._earlier.get(name, Measured())
        is_answered = has_answers(measured.last_segment().requests, load)
        if measured.verdict is not None and is_answered:
            self.measured[level] = measured.last_segment()
            return Point(level=level, **measured.verdict)
        if measured.requests:  # it was interrupted, or nothing was answered: it starts again
            measured = measured.restarted()
        rule = _Decided(load, self._slo, self._settings.point_s)
        limit_s = (1 + MAX_EXTENSIONS) * max(self._settings.duration_s, self._settings.point_s)
        self._runner.run(name, load, measured, duration_s=limit_s, rule=rule, overload_counts=True)
        self.measured[level] = measured
        verdict: Verdict = rule.judgement.verdict or "miss"
        if verdict == "miss" and self._is_client_bound(measured.seconds, load):
            verdict = "client"
        is_decided = rule.judgement.is_decided and rule.judgement.verdict is not None
        self._runner.decide(name, verdict=verdict, is_decided=is_decided)
        return Point(level=level, verdict=verdict, is_decided=is_decided)

    def _is_client_bound(self, seconds: Sequence[Second], load: Load) -> bool:
        return bool(client_bound(seconds, open_loop=load.is_open, ttft_limit_s=self._slo.ttft))


class _Decided:
    """Ends a point once it is decided."""

    def __init__(self, load: Load, slo: Slo, least_s: float) -> None:
        self._load, self._slo, self._least_s = load, slo, least_s
        self._looked_at = 0.0
        self.judgement = Judgement(verdict=None)

    def __call__(self, requests: Sequence[Request], elapsed_s: float) -> bool:
        if self.judgement.verdict is not None:
            return True
        if not requests or elapsed_s < self._looked_at + 1.0:
            return False
        self._looked_at = elapsed_s
        own = [one for one in requests if one.segment == requests[-1].segment]
        self.judgement = _judgement(own, self._load, self._slo, self._least_s)
        return self.judgement.verdict is not None


def _judgement(own: Sequence[Request], load: Load, slo: Slo, least_s: float) -> Judgement:
    window = steady_window(own, concurrency=load.concurrency, ramp_s=load.ramp_s)
    if not window.is_steady:
        return Judgement(verdict=None)
    inside = [one for one in own if window.has_sent(one)]
    return judge(inside, slo, steady_s=window.seconds, least_steady_s=least_s)


def point_name(search: str, level: float) -> str:
    """The key of a point: ``concurrency 8``, ``4/s``."""
    return f"{level:g}/s" if search == "rate" else f"concurrency {level:g}"


def points_table(search: CapacitySearch) -> list[dict[str, Any]]:
    """The points for a result, by ascending load; JSON values only."""
    return [
        {"level": one.level, "verdict": one.verdict, "is_decided": one.is_decided}
        for one in sorted(search.points, key=lambda one: one.level)
    ]
