"""Measures one load point: runs the client, records its requests, watches the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchfleet.benchmarks.base import Record, Session
from benchfleet.benchmarks.serving.prompt_source import Source, client_spec
from benchfleet.benchmarks.serving.unanswered import HTTP_ERROR, refused
from benchfleet.errors import CellFailure
from benchfleet.models.base import LoadTarget
from benchfleet.serving.load_run import ClientLost, LoadRun, Second
from benchfleet.serving.metrics import Load, checkpoint_summary
from benchfleet.serving.request import Request
from benchfleet.serving.server_metrics import MetricsSampler

HEALTH_EVERY_S = 30.0
MAX_FAILED_CHECKS = 2  # in a row, without an answer in between
# Requests in a row with one HTTP error: enough for a search, and for others if they took so long.
FEW_REFUSED, MAX_REFUSED, MAX_REFUSED_S = 10, 100, 10.0
CHECKPOINT_EVERY_S = 5.0
_POLL_S = 0.1
_GONE_CHECK_EVERY_S = 1.0  # after requests that found no server
_BY_TOKENIZER = "tokenizer"
_LOST = ("connect", "reset", "cut_body")

Rule = Callable[[Sequence[Request], float], bool]  # requests, seconds since the start: stop?


@dataclass(kw_only=True)
class Measured:
    """What was measured of one point, over all its segments."""

    requests: list[Request] = field(default_factory=list)
    seconds: list[Second] = field(default_factory=list)
    server: list[dict[str, float]] = field(default_factory=list)  # of its page /metrics
    origins: dict[int, int] = field(default_factory=dict)  # by segment, `perf_counter_ns`
    first_segment: int = 0  # the next one at least, after others that were left out
    first_index: int = 0
    verdict: dict[str, Any] | None = None  # of a search; None: not decided

    def last_segment(self) -> Measured:
        """The requests of the last segment alone."""
        last = max((one.segment for one in self.requests), default=0)
        return replace(self, requests=[one for one in self.requests if one.segment == last])

    def restarted(self) -> Measured:
        """Nothing, after what was measured: it starts again."""
        return Measured(first_segment=self.next_segment, first_index=self.next_index)

    @property
    def next_segment(self) -> int:
        """The number of the next segment."""
        return max(self.first_segment, 1 + max((r.segment for r in self.requests), default=-1))

    @property
    def next_index(self) -> int:
        """The schedule index of the next request; none is used twice."""
        return max(self.first_index, 1 + max((r.n for r in self.requests), default=-1))

    def spans(self) -> dict[int, float]:
        """Seconds of each segment."""
        ends: dict[int, int] = {}
        for one in self.requests:
            ends[one.segment] = max(ends.get(one.segment, 0), one.end)
        return {segment: end / 1e9 for segment, end in sorted(ends.items())}


class PointRunner:
    """Runs load points of one cell. Nothing is sent again: each failure is a sample."""

    def __init__(
        self,
        session: Session,
        target: LoadTarget,
        source: Source,
        *,
        seed: int,
        clients: int = 1,
        connections: int | None = None,
        health_every_s: float = HEALTH_EVERY_S,
    ) -> None:
        self._session, self._target, self._source = session, target, source
        self._seed, self._clients, self._connections = seed, clients, connections
        self._health_every_s = health_every_s
        self._count_tokens = TokenCounter(target.tokenizer)
        self._index = 1 + max((one.index for one in session.recorded), default=-1)
        self._decided = max(0, *(-one.index for one in session.recorded), 0)

    def run(
        self,
        name: str,
        load: Load,
        measured: Measured,
        *,
        duration_s: float,
        requests: int | None = None,
        rule: Rule | None = None,
        overload_counts: bool = False,
    ) -> None:
        """One more segment of a point, added to `measured`. Raises CellFailure if the server or
        the client is gone, or if the server refuses all requests; what ended until then is
        recorded. `overload_counts`: refusals that another time would be answered are a result."""
        segment, first = measured.next_segment, measured.next_index
        spec = self._spec(load, duration_s, first, requests)
        try:
            with (
                LoadRun(
                    spec, clients=self._clients, ndjson=self._target.ndjson, segment=segment
                ) as run,
                MetricsSampler(self._target.root, key=self._target.key) as sampler,
            ):
                measured.origins[segment] = run.origin
                watch = _ServerWatch(self._target, self._health_every_s, overload_counts)
                checkpoint_at = CHECKPOINT_EVERY_S
                try:
                    while not run.done:
                        self._take(name, run, measured, watch)
                        if rule and rule(measured.requests, run.elapsed_s):
                            run.stop()
                        if run.elapsed_s >= checkpoint_at:
                            checkpoint_at = run.elapsed_s + CHECKPOINT_EVERY_S
                            self._checkpoint(measured)
                        watch.check(run.elapsed_s)
                        self._session.check_stop()
                        time.sleep(_POLL_S)
                    self._take(name, run, measured, watch)
                    if overload_counts:  # what no load causes is no result of a search
                        watch.check_refused(FEW_REFUSED)
                finally:
                    measured.seconds += run.seconds
                    measured.server += sampler.samples(run.origin, segment)
                    self._checkpoint(measured)
        except ClientLost as error:
            raise CellFailure(
                stage="benchmark", kind="crash", message=str(error), retryable=True
            ) from error

    def decide(self, name: str, *, verdict: str, is_decided: bool) -> None:
        """Keep the verdict on a point for the next attempt."""
        self._decided += 1
        self._session.record(
            Record(
                index=-self._decided,
                id=name,
                columns={},
                predicted_answer="",
                resume={"point": name, "verdict": verdict, "is_decided": is_decided},
            )
        )

    def _spec(
        self, load: Load, duration_s: float, first: int, requests: int | None
    ) -> dict[str, Any]:
        spec = {
            **client_spec(self._target),
            "bodies": self._source.bodies,
            "duration_s": duration_s,
            "first": first,
            "requests": None if requests is None else first + requests,
            "ramp_s": load.ramp_s,
            "seed": self._seed + first,  # another part of a schedule for each segment
            "connections": self._connections,
        }
        if load.is_open:
            return {**spec, "rate": load.rate, "arrivals": load.arrivals}
        return {**spec, "concurrency": load.concurrency}

    def _take(self, name: str, run: LoadRun, measured: Measured, watch: _ServerWatch) -> None:
        for request in run.requests():
            counted = self._count_tokens(request)
            measured.requests.append(counted)
            watch.saw(counted)
            self._record(name, counted)

    def _record(self, name: str, request: Request) -> None:
        session = self._session
        raw = request.to_dict()
        columns: dict[str, Any] = {
            "point": name,
            "segment": request.segment,
            "n": request.n,
            **{f"{key}_ms": _ms(raw.get(key)) for key in ("scheduled", "sent", "first", "last")},
            "end_ms": _ms(request.end),
            "ttft_ms": _ms(request.ttft),
            "tpot_ms": _ms(request.tpot),
            "e2e_ms": _ms(request.e2e),
            "status": request.status,
            "error": request.error,
        }
        record = Record(
            index=self._index,
            id=f"{session.subset or ''}/{name}/{request.segment}/{request.n}",
            columns=columns,
            predicted_answer=request.text,
            prompt_tokens=request.prompt_tokens or 0,
            completion_tokens=request.tokens or 0,
            seconds=(request.end - request.sent) / 1e9,
            resume={"point": name, "request": raw},
            finish=request.finish,
        )
        self._index += 1
        session.record(record)

    def _checkpoint(self, measured: Measured) -> None:
        self._session.checkpoint(checkpoint_summary(measured.requests))


class TokenCounter:
    """Counts the tokens of answers that the server did not count, if their tokenizer is here."""

    def __init__(self, tokenizer: str) -> None:
        self._name = tokenizer
        self._tokenizer: Any = None

    def __call__(self, request: Request) -> Request:
        """The request with a count and its source; unchanged without a tokenizer."""
        if request.tokens is not None or not request.ok or not self._name:
            return request
        if self._tokenizer is None:
            from transformers import AutoTokenizer

            self._tokenizer = AutoTokenizer.from_pretrained(self._name)
        ids = self._tokenizer.encode(request.text, add_special_tokens=False)
        return replace(request, tokens=len(ids), token_source=_BY_TOKENIZER)


class _ServerWatch:
    """Notices a server that is gone, that answers neither health checks nor requests, or that
    refuses them all."""

    def __init__(self, target: LoadTarget, every_s: float, overload_counts: bool) -> None:
        self._target, self._every_s, self._overload_counts = target, every_s, overload_counts
        self._refused: list[Request] = []  # in a row, with one HTTP error
        self._next, self._failed = every_s, 0
        self._lost = self._answered = False
        self._gone_check_at = 0.0

    def saw(self, request: Request) -> None:
        """A request ended."""
        self._answered = self._answered or request.ok
        self._lost = self._lost or request.error in _LOST
        if not request.error.startswith(HTTP_ERROR):
            self._refused = []
        elif self._refused and self._refused[0].error == request.error:
            self._refused.append(request)
        else:
            self._refused = [request]

    def check(self, elapsed_s: float) -> None:
        """Raise CellFailure if the server is of no use any more."""
        if self._refused and elapsed_s - self._refused[0].sent / 1e9 >= MAX_REFUSED_S:
            self.check_refused(MAX_REFUSED)
        if self._lost and elapsed_s >= self._gone_check_at:
            self._lost, self._gone_check_at = False, elapsed_s + _GONE_CHECK_EVERY_S
            if self._target.is_gone():
                raise self._target.failure()
        if elapsed_s < self._next:
            return
        if self._target.is_gone():
            raise self._target.failure()
        healthy = self._answered or self._target.is_healthy()
        self._next, self._answered = elapsed_s + self._every_s, False
        self._failed = 0 if healthy else self._failed + 1
        if self._failed >= MAX_FAILED_CHECKS:
            raise self._target.failure()

    def check_refused(self, least: int) -> None:
        """Raise CellFailure if at least so many requests in a row were refused; where overload
        counts, only if they would be another time, too."""
        if len(self._refused) >= least:
            failure = refused(self._refused, self._target)
            if not (self._overload_counts and failure.is_retryable):
                raise failure


def recorded_points(records: Sequence[Record]) -> dict[str, Measured]:
    """What earlier attempts measured, by point; of several verdicts on a point the last one."""
    points: dict[str, Measured] = {}
    for record in sorted(records, key=lambda one: abs(one.index)):
        point = points.setdefault(str(record.resume.get("point")), Measured())
        if "request" in record.resume:
            point.requests.append(Request.from_dict(record.resume["request"]))
        elif "verdict" in record.resume:
            point.verdict = {name: record.resume[name] for name in ("verdict", "is_decided")}
    return points


def _ms(ns: Any) -> float | None:
    return None if ns is None else round(ns / 1e6, 3)
