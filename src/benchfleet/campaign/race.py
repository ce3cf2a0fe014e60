"""The ``race`` of a campaign file: which configs stop early, and how sure that must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchfleet.domain.matrix import Matrix
from benchfleet.domain.name_patterns import matches
from benchfleet.domain.race import DEFAULT_CONFIDENCE, RaceSettings
from benchfleet.hints import hint

from .entry import Entry
from .schema_types import SHARE, TEXT, TRUTH, Shape, doc, either, mapping, one_or_list

KEYS: Mapping[str, Shape] = {
    "confidence": doc(SHARE, "that no config is stopped wrongly, in the whole campaign (95%)"),
    "keep": doc(
        one_or_list(TEXT),
        "names or globs of configs that are never stopped (the first without attention); [] for "
        "none",
    ),
}
RACE = doc(either(TRUTH, mapping(KEYS)), "stop configs early that are surely worse than another")
_LEAST_CONFIDENCE = 0.5


def read_race(entry: Entry, matrix: Matrix) -> RaceSettings | None:
    """The settings; None where there is no race, or a mistake."""
    if entry.absent or entry.value is False:
        return None
    settings = RaceSettings()
    if entry.value is not True:
        if not isinstance(entry.value, dict):
            entry.pairs("true, or a mapping such as {confidence: 95%}")
            return None
        fields = entry.fields(KEYS)
        confidence = fields["confidence"].share(DEFAULT_CONFIDENCE)
        if fields["confidence"].right and not _LEAST_CONFIDENCE <= confidence < 1:
            fields["confidence"].wrong(
                f"invalid confidence {confidence:g}: use 50% or more, and less than 100%"
            )
        keep = None if fields["keep"].absent else _keep(fields["keep"], matrix)
        settings = RaceSettings(confidence=confidence, keep=keep)
    parts = (matrix, *matrix.parts)
    most = max(n for part in parts for n in (part.repeats, *(one.repeats for one in part.include)))
    if entry.right and any(part.configs for part in parts) and most < 2:
        entry.wrong("needs repeats, of which the later ones can be stopped; set defaults.repeats")
    return settings


def in_rounds(matrix: Matrix) -> Matrix:
    """The matrix, with the cells of a model ordered by repeat."""
    parts = tuple(replace(part, rounds=True) for part in matrix.parts)
    return replace(matrix, rounds=True, parts=parts)


def _keep(entry: Entry, matrix: Matrix) -> tuple[str, ...]:
    parts = (matrix, *matrix.parts)
    names = dict.fromkeys(config.name for part in parts for config in part.configs)
    patterns = []
    for item in entry.items(single=True):
        pattern = item.text()
        if item.right and names and not any(matches((pattern,), name) for name in names):
            item.wrong(f"no config is called {pattern!r}; {hint(pattern, names)}")
        patterns.append(pattern)
    return tuple(patterns)
