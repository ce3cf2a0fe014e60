"""The ``suites`` of a campaign file: benchmarks with one score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchfleet.domain.cell import Workload
from benchfleet.domain.name_patterns import matches
from benchfleet.domain.suite import SUITE_MEANS, Part, Suite, SuiteMean
from benchfleet.hints import hint

from .entry import Entry
from .schema_types import LABEL, NAME, Shape, doc, either, listing, mapping, named

_WEIGHT: Shape = {"type": "number", "exclusiveMinimum": 0}
KEYS: Mapping[str, Shape] = {
    "benchmarks": doc(
        either(listing(LABEL, least=1), named(_WEIGHT, NAME)),
        "names or globs of benchmarks, or of a benchmark and a subset as in recall_512; for "
        "weights a mapping to numbers",
    ),
    "mean": doc(
        {"enum": [*SUITE_MEANS]},
        "macro: all parts count equally; micro: all samples do; weights: by the given weights",
    ),
}
SUITES = doc(
    named(mapping(KEYS, required=("benchmarks",)), NAME),
    "one score over several benchmarks, by its name",
)


def read_suites(entry: Entry, workloads: Sequence[Workload]) -> tuple[Suite, ...]:
    """The suites over the campaign's workloads; a name that none of them has is a mistake."""
    known_names = {name for work in workloads for name in (work.name, work.full_name, work.label)}
    suites = []
    for name, item in entry.pairs("a mapping of suites, such as {core: {benchmarks: […]}}"):
        fields = item.fields(KEYS)
        if name in known_names:
            item.wrong(f"{name!r} is a benchmark too; give the suite another name")
        parts = _parts(fields["benchmarks"], workloads)
        mean = _mean(fields["mean"], weighted=isinstance(fields["benchmarks"].value, dict))
        if parts:
            suites.append(Suite(name=name, parts=parts, mean=mean))
    return tuple(suites)


def _mean(entry: Entry, *, weighted: bool) -> SuiteMean:
    """The mean that is named, else the one that fits; weights need a mapping."""
    default: SuiteMean = "weights" if weighted else "macro"
    text = entry.text(default)
    for mean in SUITE_MEANS:
        if mean == text:
            if weighted != (mean == "weights"):
                fitting = "names weights" if weighted else "names no weights"
                entry.wrong(
                    f"{mean} does not fit, because 'benchmarks' {fitting}; "
                    "write a list for macro and micro, and {NAME: WEIGHT, …} for weights"
                )
            return mean
    if entry.right:
        entry.wrong(f"no mean {text!r}; {hint(text, SUITE_MEANS)}")
    return default


def _parts(entry: Entry, workloads: Sequence[Workload]) -> tuple[Part, ...]:
    if entry.absent:
        entry.wrong("is missing; name the benchmarks of the suite")
    if isinstance(entry.value, dict):
        items = [(str(name), item) for name, item in entry.pairs("")]
    else:
        items = [(item.label(), item) for item in entry.items(single=True)]
    if not items and entry.right:
        entry.wrong("names no benchmark; remove the suite, or name some")
    known_names = [*dict.fromkeys(name for w in workloads for name in (w.name, w.full_name))]
    parts: list[Part] = []
    claimed: dict[str, str] = {}
    for name, item in items:
        members = [
            *dict.fromkeys(w.full_name for w in workloads if matches([name], w.name, w.full_name))
        ]
        twice = next((one for one in members if one in claimed), None)
        if item.right and workloads and not members:
            item.wrong(f"no benchmark is called {name!r}; {hint(name, known_names)}")
        elif twice is not None:
            item.wrong(f"{twice!r} is in {claimed[twice]!r} too; keep it in one of them")
        elif members:
            claimed.update(dict.fromkeys(members, name))
            weight = _weight(item) if isinstance(entry.value, dict) else 1.0
            parts.append(Part(name=name, workloads=tuple(members), weight=weight))
    return tuple(parts)


def _weight(item: Entry) -> float:
    value = item.value
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value < float("inf"):
        item.wrong(f"invalid weight {value!r}: use a number above 0")
        return 1.0
    return float(value)
