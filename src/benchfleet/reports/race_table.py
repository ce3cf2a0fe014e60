"""How a race stands as a table: the same words in a terminal and on a page."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.domain.humanize import counted
from benchfleet.reports.race_standings import Standing

HEAD = (
    *("config", "repeats", "samples", "difference", "anytime interval", "compared with"),
    *("verdict", "saved"),
)
_VERDICTS = {
    "leads": "leads",
    "in": "still in",
    "worse": "surely worse; nothing left to stop",
    "kept": "surely worse; kept",
    "stops": "stopped now",
    "stopped": "stopped",
    "brought back": "brought back; not stopped again",
    "no result": "no result yet",
    "does not race": "does not race",
}


def row(one: Standing, *, stops: str = _VERDICTS["stops"]) -> Sequence[str]:
    """The texts of one config, by `HEAD`; `stops` is the verdict on one to be stopped now."""
    compared, saved = one.difference, one.to_dict()["saved"]
    difference, bounds = "", list[str]()
    if compared:
        difference = f"{compared.difference:+.3f}"
        bounds = [f"{bound:.3f}" for bound in compared.interval]
    return (
        one.config,
        f"{one.repeats} of {one.of}",
        str(compared.samples) if compared else "",
        difference.replace("-", "\N{MINUS SIGN}"),
        " to ".join(bounds).replace("-", "\N{MINUS SIGN}"),
        one.compared_with,
        stops if one.verdict == "stops" else _VERDICTS[one.verdict],
        counted(saved, "cell") if saved else "",
    )
