"""The ``runners`` of a campaign file: what each host may run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchfleet.domain.cell import Cell
from benchfleet.domain.host_filter import ANY_HOST, HostFilter
from benchfleet.domain.name_patterns import matches
from benchfleet.hints import hint

from .entry import Entry
from .schema_types import LABEL, NAME, Shape, doc, mapping, named, nullable, one_or_list

_PATTERN = one_or_list(LABEL)
KEYS: Mapping[str, Shape] = {
    "phases": doc(_PATTERN, "only cells of these phases, by name or glob; ! negates"),
    "models": doc(_PATTERN, "only cells of these models, by name or glob; ! negates"),
}
RUNNERS = doc(
    named(nullable(mapping(KEYS)), NAME),
    f"what each host may run, by its name; {ANY_HOST} is for all that are not named",
)


def read_runners(entry: Entry, cells: Sequence[Cell]) -> dict[str, HostFilter]:
    """What each host may run; a name that no cell has is a mistake."""
    known_names = {
        "phases": sorted({cell.phase for cell in cells if cell.phase}),
        "models": sorted({cell.model.name for cell in cells}),
    }
    filters = {}
    for host, item in entry.pairs("a mapping of hosts, such as {machine-a: {models: […]}}"):
        fields = item.fields(KEYS)
        patterns: dict[str, tuple[str, ...]] = {}
        for axis, names in known_names.items():
            listed = fields[axis].items(single=True)
            for one in listed:
                name = one.label().removeprefix("!")
                if one.right and cells and not any(matches((name,), other) for other in names):
                    one.wrong(f"no {axis[:-1]} is called {name!r}; {hint(name, names)}")
            patterns[axis] = tuple(one.label() for one in listed)
        filters[host] = HostFilter(**patterns)
    return filters
