"""The parameters of a load point, as a campaign writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchfleet.benchmarks.parameters import seconds, text, whole_number, with_defaults
from benchfleet.domain.units import with_fractions
from benchfleet.hints import hint
from benchfleet.serving.metrics import Load
from benchfleet.serving.slo import DEFAULT_SHARE, Slo

MAX_RAMP_S = 5.0
_MAX_CONCURRENCY, _MAX_TOKENS, _MAX_REQUESTS = 100_000, 10_000_000, 10_000_000
_SHORT_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(ms|s)")
_RATE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?/ ?(s|min|h)")
_PER_S = {"s": 1.0, "min": 60.0, "h": 3600.0}
DEFAULTS: Mapping[str, Any] = {
    "concurrency": None,  # streams of a closed loop
    "rate": None,  # of an open loop, such as 4/s
    "arrivals": "poisson",  # or constant
    "duration": "300s",
    "requests": None,  # ends there, if earlier
    "steady": None,  # ends once the mean is steady within so much, such as 5%
    "input_tokens": 512,
    "output_tokens": 128,
    "prompts": None,  # {benchmark: …} in place of synthetic ones
    "slo": None,
    "search": None,  # concurrency or rate: finds the capacity
    "under": None,  # slo
    "from": 1,
    "to": 512,
    "point": "30s",  # steady time of each point of a search, at least
    "ignore_eos": None,  # true, false; by default where the server can
}
OUTSIDE: Mapping[str, Any] = {
    "clients": 1,  # load client processes
    "connections": None,  # of an open loop, at most
    "calibrate": True,
    "file": None,  # of prompts in ShareGPT's form; its content is the identity
    "folder": ".",
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A load point, or the search for one."""

    load: Load
    duration_s: float
    requests: int | None
    steady: float | None
    input_tokens: int
    output_tokens: int
    prompts: Mapping[str, Any] | None
    slo: Slo | None
    search: str  # concurrency, rate, or "" for one point
    first: float
    most: float
    point_s: float
    ignore_eos: bool | None
    params: Mapping[str, Any] = field(repr=False)

    def load_at(self, level: float) -> Load:
        """The load of one point of a search."""
        if self.search == "rate":
            return Load(rate=level, arrivals=self.load.arrivals)
        return _closed(int(level), self.duration_s)

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Settings:
        """Raises ValueError, saying what to do."""
        values = with_fractions(with_defaults(params, DEFAULTS))
        duration = seconds("duration", values["duration"])
        slo = read_slo(values["slo"])
        return cls(
            load=_load(values, duration),
            duration_s=duration,
            requests=_optional_whole("requests", values["requests"], most=_MAX_REQUESTS),
            steady=_share("steady", values["steady"]),
            input_tokens=whole_number(
                "input_tokens", values["input_tokens"], least=1, most=_MAX_TOKENS
            ),
            output_tokens=whole_number(
                "output_tokens", values["output_tokens"], least=1, most=_MAX_TOKENS
            ),
            prompts=_prompts(values["prompts"]),
            slo=slo,
            search=_search(values, slo),
            first=_level("from", values),
            most=_level("to", values),
            point_s=seconds("point", values["point"]),
            ignore_eos=_truth("ignore_eos", values["ignore_eos"]),
            params={name: value for name, value in values.items() if _is_used(name, values)},
        )


def read_slo(value: Any) -> Slo | None:
    """``{ttft: 500ms, tpot: 50ms, e2e: 10s, share: 0.95}``; None for None. Raises ValueError."""
    if value is None:
        return None
    names = ("ttft", "tpot", "e2e")
    if not isinstance(value, Mapping):
        raise ValueError(f"slo takes ttft, tpot, e2e and share, not {value!r}")
    for name in value:
        if name not in {*names, "share"}:
            raise ValueError(f"slo has no limit {name!r}; {hint(str(name), (*names, 'share'))}")
    limits = {name: short_time(f"slo: {name}", value[name]) for name in names if name in value}
    if not limits:
        raise ValueError("slo names no limit; write {ttft: 500ms}")
    share = _share("slo: share", value.get("share", DEFAULT_SHARE))
    return Slo(**limits, share=share or DEFAULT_SHARE)


def short_time(name: str, value: Any) -> float:
    """Seconds of ``500ms`` or ``2s``, or ValueError."""
    match = _SHORT_TIME.fullmatch(value) if isinstance(value, str) else None
    if match and float(match[1]) > 0:
        return float(match[1]) / (1000 if match[2] == "ms" else 1)
    raise ValueError(f"{name} must be a time such as 500ms or 2s, not {value!r}")


def read_rate(name: str, value: Any) -> float:
    """Requests a second of ``4/s``, ``240/min`` or a number, or ValueError."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        return float(value)
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match and float(match[1]) > 0:
        return float(match[1]) / _PER_S[match[2]]
    raise ValueError(f"{name} must be requests a second such as 4/s, not {value!r}")


def _closed(concurrency: int, duration: float) -> Load:
    ramp = min(MAX_RAMP_S, duration / 20) if concurrency > 1 else 0.0
    return Load(concurrency=concurrency, ramp_s=ramp)


def _load(values: Mapping[str, Any], duration: float) -> Load:
    concurrency, rate, arrivals = (values[name] for name in ("concurrency", "rate", "arrivals"))
    if arrivals not in ("poisson", "constant"):
        raise ValueError(f"arrivals must be poisson or constant, not {arrivals!r}")
    if concurrency is not None and rate is not None:
        raise ValueError("concurrency and rate exclude each other; remove one")
    if rate is not None:
        return Load(rate=read_rate("rate", rate), arrivals=arrivals)
    count = 1 if concurrency is None else concurrency
    count = whole_number("concurrency", count, least=1, most=_MAX_CONCURRENCY)
    if values["search"] == "rate":
        return Load(rate=1.0, arrivals=arrivals)
    return _closed(count, duration)


def _search(values: Mapping[str, Any], slo: Slo | None) -> str:
    search = values["search"]
    if search is None:
        return ""
    if search not in ("concurrency", "rate"):
        raise ValueError(f"search must be concurrency or rate, not {search!r}")
    if values["concurrency"] is not None or values["rate"] is not None:
        raise ValueError("search finds the load itself; remove concurrency and rate")
    if values["under"] not in (None, "slo"):
        raise ValueError(f"under must be slo, not {values['under']!r}")
    if slo is None:
        raise ValueError("search needs a limit; add slo: {ttft: 500ms}")
    if _level("from", values) > _level("to", values):
        raise ValueError("from is larger than to; swap them")
    return str(search)


def _level(name: str, values: Mapping[str, Any]) -> float:
    if values["search"] == "rate":
        return read_rate(name, values[name])
    return float(whole_number(name, values[name], least=1, most=_MAX_CONCURRENCY))


def _is_used(name: str, values: Mapping[str, Any]) -> bool:
    """Whether a parameter is part of the identity: those that change nothing are not."""
    if name in ("from", "to", "under", "point", "search"):
        return values["search"] is not None
    if name == "arrivals":
        return values["rate"] is not None or values["search"] == "rate"
    if name == "input_tokens":
        return values["prompts"] is None
    return values[name] is not None


def _prompts(value: Any) -> Mapping[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or "benchmark" not in value:
        raise ValueError("prompts takes {benchmark: NAME, subset: …} and that one's parameters")
    text("prompts: benchmark", value["benchmark"])
    return value


def _optional_whole(name: str, value: Any, *, most: int) -> int | None:
    return None if value is None else whole_number(name, value, least=1, most=most)


def _truth(name: str, value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise ValueError(f"{name} must be true or false, not {value!r}")


def _share(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1:
        return float(value)
    raise ValueError(f"{name} must be a share such as 5%, not {value!r}")
