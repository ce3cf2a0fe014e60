"""The serving benchmark: a cell measures one load point of one server, or searches its capacity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.benchmarks.base import Benchmark, Score, Session
from benchfleet.benchmarks.parameters import whole_number
from benchfleet.benchmarks.serving.calibrated import calibration_of
from benchfleet.benchmarks.serving.point import Measured, PointRunner, recorded_points
from benchfleet.benchmarks.serving.prompt_source import (
    Source,
    benchmark_prompts,
    file_source,
    read_sharegpt,
    sharegpt_prompts,
    synthetic_source,
)
from benchfleet.benchmarks.serving.result import NUMBERS, point_score, search_score
from benchfleet.benchmarks.serving.search import CapacitySearch
from benchfleet.benchmarks.serving.segments import part_left, usable
from benchfleet.benchmarks.serving.settings import OUTSIDE, Settings
from benchfleet.benchmarks.serving.unanswered import unanswered
from benchfleet.file_digest import file_digest
from benchfleet.models.base import LoadTarget, Prompt
from benchfleet.serving.metrics import Load, has_answers
from benchfleet.serving.prefix_cache import reset_prefix_cache
from benchfleet.serving.request import Request
from benchfleet.serving.round_trip import round_trip_ms
from benchfleet.serving.steady_mean import SteadyMean
from benchfleet.serving.window import steady_window, tokens_each_second

OPEN_LOOP_STREAMS = 32  # at which the client of an open loop is calibrated
POINT = "load"  # how the point of a cell without a search is called


class Serving(Benchmark):
    """How a server serves under a load: latencies, tokens per second, goodput.

    A closed loop has `concurrency` streams, an open loop a `rate` with `arrivals` (poisson or
    constant). It ends after `duration`, after `requests`, or once the mean is `steady` within so
    much. `search` finds the highest load under an `slo`. Prompts are synthetic, of about
    `input_tokens`; or those of a `file` in ShareGPT's form, or of another benchmark (`prompts`).
    """

    version: ClassVar[str] = "2"
    exclusive: ClassVar[bool] = True
    measures_speed: ClassVar[bool] = True
    loads_server: ClassVar[bool] = True
    why_unseen: ClassVar[str] = "a load test makes its requests itself"
    takes_folder: ClassVar[bool] = True
    reports: ClassVar[frozenset[str] | None] = frozenset(NUMBERS)

    def __init__(self, params: Mapping[str, Any]) -> None:
        own = {name: params.get(name, default) for name, default in OUTSIDE.items()}
        self._settings = Settings.of({k: v for k, v in params.items() if k not in OUTSIDE})
        clients, connections = own["clients"], own["connections"]
        self._clients = whole_number("clients", clients, least=1, most=64)
        if connections is not None:
            whole_number("connections", connections, least=1)
        self._connections: int | None = connections
        self._calibrates = bool(own["calibrate"])
        self._file = None if own["file"] is None else Path(own["folder"]) / str(own["file"])
        if self._file is not None and self._settings.prompts is not None:
            raise ValueError("file and prompts exclude each other; remove one")
        if self._settings.prompts is not None:
            benchmark_prompts(self._settings.prompts, 0)

    def params(self) -> Mapping[str, Any]:
        return self._settings.params

    def outside(self) -> Mapping[str, Any]:
        file = {} if self._file is None else {"file": str(self._file.absolute())}
        connections = {} if self._connections is None else {"connections": self._connections}
        return {"clients": self._clients, "calibrate": self._calibrates, **connections, **file}

    def check_subset(self, subset: str) -> str | None:
        return None  # any name of a load point

    def data_digest(self, subset: str | None) -> str:
        if self._file is None:
            return ""
        read_sharegpt(self._file)
        return file_digest(self._file)

    def files(self, subset: str | None) -> Sequence[Path]:
        return [] if self._file is None else [self._file]

    def run(self, session: Session) -> Score:
        settings, target = self._settings, session.adapter.load_target()
        source = self._source(session, target)
        runner = PointRunner(
            session,
            target,
            source,
            seed=session.seed,
            clients=self._clients,
            connections=self._connections,
        )
        earlier = recorded_points(session.recorded)
        if settings.search:
            search = CapacitySearch(settings, runner, earlier)
            search.run()
            if not search.is_answered:
                requests = [r for one in search.measured.values() for r in one.requests]
                raise unanswered(requests, target)
            return search_score(search, settings, source, session, self._client_limit)
        measured = usable(earlier.get(POINT, Measured()), settings.duration_s, settings.requests)
        if measured.requests and not has_answers(measured.requests, settings.load):
            measured = measured.restarted()
        remaining_s, remaining = part_left(measured, settings.duration_s, settings.requests)
        if remaining_s > 0 and remaining != 0:
            reset_prefix_cache(target.root, key=target.key)
            rule = _SteadyRule(settings.steady, settings.load) if settings.steady else None
            runner.run(
                POINT,
                settings.load,
                measured,
                duration_s=remaining_s,
                requests=remaining,
                rule=rule,
            )
        if not has_answers(measured.requests, settings.load):
            raise unanswered(measured.requests, target)
        return point_score(measured, settings, source, session, self._client_limit)

    def _source(self, session: Session, target: LoadTarget) -> Source:
        settings = self._settings
        generation = {
            **session.generation,
            "max_new_tokens": settings.output_tokens,
        }
        takes_it = settings.ignore_eos
        if takes_it is None:
            takes_it = self._file is None and target.abilities.get("ignore_eos", False)
        if takes_it:
            generation["ignore_eos"] = True
        if self._file is None and settings.prompts is None:
            source = synthetic_source(
                target, generation, input_tokens=settings.input_tokens, seed=session.seed
            )
        else:
            prompts, kind = self._prompts(session.seed)
            source = file_source(
                target, generation, prompts, folder=session.scratch, seed=session.seed, kind=kind
            )
        return Source(
            bodies=source.bodies,
            requested_tokens=source.requested_tokens,
            facts={
                **source.facts,
                "ignore_eos": bool(takes_it),
                "round_trip_ms": None if target.is_local else round_trip_ms(target.root),
            },
        )

    def _prompts(self, seed: int) -> tuple[Iterator[tuple[Prompt, int | None]], str]:
        if self._file is not None:
            return sharegpt_prompts(self._file), f"the file {self._file.name}"
        prompts = self._settings.prompts or {}
        return benchmark_prompts(prompts, seed), f"the benchmark {prompts['benchmark']}"

    def _client_limit(self, load: Load) -> Mapping[str, Any]:
        """What this cell's clients can take on this host, measured once for each version; empty if
        it is not to be measured."""
        if not self._calibrates:
            return {}
        streams = load.concurrency or OPEN_LOOP_STREAMS
        calibration = calibration_of(max(1, streams // self._clients))
        chunks = calibration["chunks_per_second"] * self._clients
        return {**calibration, "clients": self._clients, "chunks_per_second": chunks}


class _SteadyRule:
    """Ends a point once its tokens per second are steady."""

    def __init__(self, target: float, load: Load) -> None:
        self._mean, self._load = SteadyMean(target), load

    def __call__(self, requests: Sequence[Request], elapsed_s: float) -> bool:
        if not self._mean.is_due(elapsed_s) or not requests:
            return False
        segment = requests[-1].segment
        own = [one for one in requests if one.segment == segment]
        window = steady_window(own, concurrency=self._load.concurrency, ramp_s=self._load.ramp_s)
        series = tokens_each_second(own, begin=window.begin, end=window.end)
        return self._mean.check(series, sum(one.ok for one in own))
