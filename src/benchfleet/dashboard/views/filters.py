"""What the matrix and the list of cells are narrowed to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from benchfleet.dashboard.model import AXES
from benchfleet.dashboard.rows import Row
from benchfleet.dashboard.tiles import Tile

SPANS_S: Mapping[str, float] = {"10min": 600.0, "1h": 3600.0, "24h": 86_400.0}
SPAN_NAMES: Mapping[str, str] = {
    "10min": "changed in 10 minutes",
    "1h": "changed in the last hour",
    "24h": "changed in a day",
}


@dataclass(frozen=True, kw_only=True)
class Filters:
    """The filters of an address; "" for all."""

    model: str = ""
    config: str = ""
    benchmark: str = ""
    subset: str = ""
    state: str = ""
    host: str = ""
    changed: str = ""  # one of SPANS_S
    text: str = ""

    @property
    def is_of_cells(self) -> bool:
        """Whether tiles alone cannot decide: each cell is looked at."""
        return bool(self.host or self.changed or self.text)

    def matches_tile(self, tile: Tile) -> bool:
        """Whether the cells of the tile have these names; the other filters are of cells."""
        return all(getattr(self, axis) in ("", getattr(tile, axis)) for axis in AXES)

    def tests(self) -> list[Callable[[Row], bool]]:
        """One test for each filter that is set: a cell is left if it passes all of them. A running
        one is tested as `running_rows` has it."""
        tests: list[Callable[[Row], bool]] = []
        for name in (*AXES, "state"):
            if value := getattr(self, name):
                tests.append(partial(_has_value, attrgetter(name), value))
        if self.host:
            tests.append(partial(_has_host, self.host))
        if self.changed:
            since = time.time() - SPANS_S[self.changed]
            tests.append(lambda row: row.changed_at > since)
        if self.text:
            tests.append(partial(_has_text, self.text.casefold()))
        return tests

    @property
    def values(self) -> dict[str, str]:
        """The filters that are set."""
        return {name: value for name, value in vars(self).items() if value}

    @property
    def query(self) -> dict[str, str]:
        """The same, as addresses have them."""
        return {"q" if name == "text" else name: value for name, value in self.values.items()}

    def without(self, name: str) -> dict[str, str]:
        """The query without one of them."""
        return {key: value for key, value in self.query.items() if key != name}


def _has_value(attribute: Callable[[Row], str], value: str, row: Row) -> bool:
    return attribute(row) == value


def _has_host(host: str, row: Row) -> bool:
    return row.host == host or host in row.hosts


def _has_text(text: str, row: Row) -> bool:
    return (
        text in row.folded_path
        or row.fingerprint.startswith(text)
        or (bool(row.host) and text in row.host.casefold())
        or (bool(row.message) and text in row.message.casefold())
    )
