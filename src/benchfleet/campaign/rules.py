"""The ``exclude`` and ``include`` rules of a matrix, held against the names on its axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchfleet.domain.matrix import AXES, Include, Rule
from benchfleet.domain.name_patterns import matches
from benchfleet.hints import hint

from .entry import Entry
from .schema_types import LABEL, REPEATS, Shape, doc, mapping, one_or_list, whole

SINGULAR = {
    "models": "model",
    "configs": "config",
    "benchmarks": "benchmark",
    "subsets": "subset",
    "hardware": "hardware",
    "repeats": "repeat",
}

_PATTERN = doc(one_or_list(LABEL), "a name, a glob, or a list of them; ! in front negates")
EXCLUDE_KEYS: Mapping[str, Shape] = dict.fromkeys(AXES, _PATTERN)
INCLUDE_KEYS: Mapping[str, Shape] = {
    **EXCLUDE_KEYS,
    "repeats": doc(whole(most=REPEATS), "as many for the cells that match (defaults.repeats)"),
}
EXCLUDE = doc(one_or_list(mapping(EXCLUDE_KEYS)), "cells taken out of the product")
INCLUDE = doc(one_or_list(mapping(INCLUDE_KEYS)), "cells put back, or given repeats of their own")


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Every name in the file's matrix, right or wrong, so that a rule is not blamed for both."""

    models: Sequence[str]
    configs: Sequence[str]
    workloads: Sequence[tuple[str, str]]  # benchmark and subset, "" for the whole
    hardware: Sequence[str]
    repeats: int

    def names(self, axis: str) -> list[str]:
        """The names on an axis, each once, in the order of the file."""
        by_axis: dict[str, Iterable[str]] = {
            "models": self.models,
            "configs": self.configs,
            "benchmarks": (benchmark for benchmark, _ in self.workloads),
            "subsets": (subset for _, subset in self.workloads),
            "hardware": self.hardware,
            "repeats": map(str, range(self.repeats)),
        }
        return [name for name in dict.fromkeys(by_axis[axis]) if name]

    def meet(self, rule: Rule) -> bool:
        """Whether the rule matches any cell of the product."""
        return (
            any(matches(rule.models, name) for name in self.models)
            and any(matches(rule.configs, name) for name in self.configs)
            and any(matches(rule.hardware, name) for name in self.hardware or [""])
            and any(matches(rule.repeats, name) for name in self.names("repeats"))
            and any(
                matches(rule.benchmarks, benchmark) and matches(rule.subsets, subset)
                for benchmark, subset in self.workloads
            )
        )


def read_exclude(entry: Entry, axes: Axes) -> tuple[Rule, ...]:
    """The rules of the list; one that matches nothing is a mistake."""
    return tuple(_rule(item, axes, AXES) for item in entry.items(single=True))


def read_include(entry: Entry, axes: Axes) -> tuple[Include, ...]:
    """The includes of the list, with as many repeats as the matrix where one states none."""
    includes = []
    for item in entry.items(single=True):
        repeats = item.inside("repeats").whole(axes.repeats, most=REPEATS)
        includes.append(Include(rule=_rule(item, axes, AXES[:-1]), repeats=repeats))
    return tuple(includes)


def _rule(entry: Entry, axes: Axes, spoken: Sequence[str]) -> Rule:
    """A rule over the axes that it may speak of; an include's ``repeats`` is no pattern."""
    fields = entry.fields(EXCLUDE_KEYS)
    patterns = {axis: tuple(_patterns(fields[axis], axis, axes)) for axis in spoken}
    rule = Rule(**patterns)
    if entry.right:
        if not any(patterns.values()):
            entry.wrong(f"names no axis; a rule speaks of {', '.join(spoken)}")
        elif not axes.meet(rule):
            entry.wrong("matches no cell: each name is known, but not together")
    return rule


def _patterns(entry: Entry, axis: str, axes: Axes) -> Iterable[str]:
    known_names = axes.names(axis)
    for item in entry.items(single=True):
        pattern = item.label()
        name = pattern.removeprefix("!")
        if item.right and not any(matches((name,), one) for one in known_names):
            entry.wrong(
                f"no {SINGULAR[axis]} {name!r} in this matrix; {hint(name, known_names)}", at=item
            )
        yield pattern
