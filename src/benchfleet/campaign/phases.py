"""The ``phases`` of a campaign file: each with its cells, its gate, and what it requires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from benchfleet.domain import gate
from benchfleet.domain.cell import Cell
from benchfleet.domain.matrix import Matrix, Rule
from benchfleet.domain.phase import Phase
from benchfleet.hints import hint

from .entry import Entry
from .gate_check import check_gate_choices, check_gate_metrics
from .matrices import BELONG, MATRIX, DeclaredMatrix, MatrixReader
from .matrix_check import OTHER_NAME
from .rules import EXCLUDE_KEYS, read_exclude
from .schema_types import NAME, TEXT, TRUTH, Shape, doc, either, listing, mapping, one_or_list

_RULES = one_or_list(mapping(EXCLUDE_KEYS))
KEYS: Mapping[str, Shape] = {
    "name": doc(NAME, "how gates, options and reports call it"),
    "matrix": doc(mapping(MATRIX), "its own; an axis that is not there is the campaign's"),
    "only": doc(_RULES, "of its matrix, or of the campaign's, the cells that match"),
    "exclude": doc(_RULES, "cells that are not of this phase"),
    "gate": doc(TEXT, "what must hold of its results before the next phase opens"),
    "critical": doc(either(TRUTH, _RULES), "cells whose failure closes its gate at once"),
    "requires": doc(one_or_list(NAME), "phases whose gates must be open (the one before)"),
}
PHASES = doc(
    listing(mapping(KEYS, required=("name",)), least=1),
    "parts of the campaign that are run one after the other",
)
_AXES = ("models", "configs", "benchmarks", "hardware")
_RULED = ("exclude", "include")


def read_phases(
    entry: Entry, phases: Entry, reader: MatrixReader
) -> tuple[Matrix, tuple[Phase, ...]]:
    """The campaign's matrix with that of each phase in it, and the phases; `entry` is what stands
    under the campaign's ``matrix``."""
    fields = entry.fields(MATRIX, elsewhere=BELONG)
    if phases.absent:
        declared = reader.read(entry, fields)
        for work in declared.workloads:
            if work.critical is not None:
                work.critical.wrong("closes the gate of a phase, and this campaign has no phases")
        return declared.matrix, ()
    whole = not (fields["models"].absent or fields["benchmarks"].absent)
    own = reader.read(entry, fields) if whole else None
    items = phases.items()
    if not items and phases.right:
        phases.wrong("names no phase; remove it, or write - {name: …, gate: …}")
    read_so_far: list[tuple[Entry, Phase, Matrix]] = []
    for item in items:
        names = [phase.name for _, phase, _ in read_so_far]
        if (one := _read(item, fields, own, reader, names)) is not None:
            read_so_far.append((item, *one))
    if phases.right and entry.right:
        parts = [(item, part) for item, _, part in read_so_far]
        _check_apart(parts)
        _check_names(own, parts)
    matrix = own.matrix if own else Matrix(models=(), configs=(), workloads=())
    return (
        replace(matrix, parts=tuple(part for _, _, part in read_so_far)),
        tuple(phase for _, phase, _ in read_so_far),
    )


def _read(
    entry: Entry,
    shared: Mapping[str, Entry],
    own: DeclaredMatrix | None,
    reader: MatrixReader,
    before: Sequence[str],
) -> tuple[Phase, Matrix] | None:
    """A phase, and its part of the matrix; None where a mistake leaves none to speak of."""
    fields = entry.fields(KEYS, elsewhere=BELONG)
    name = _name(entry, fields["name"], before)
    gate_text = fields["gate"].text()
    if (
        not fields["gate"].absent
        and fields["gate"].right
        and (problem := gate.check_gate(gate_text))
    ):
        cut = gate_text.count("(") > gate_text.count(")")
        fields["gate"].wrong(problem + "; put all of it in quotes, a comma ends it here" * cut)
    requires = _requires(fields["requires"], name, before)
    declared = _matrix(entry, fields["matrix"], shared, own, reader)
    if declared is None:
        return None
    only = read_exclude(fields["only"], declared.axes)
    exclude = read_exclude(fields["exclude"], declared.axes)
    part = replace(
        declared.matrix,
        phase=name,
        only=only,
        without=exclude,
    )
    axes_right = all(shared[axis].right for axis in _AXES)
    if axes_right and entry.right and not (cells := part.expand()):
        entry.wrong("has no cell: its rules leave nothing to run")
    elif axes_right and gate_text.strip() and entry.right:
        check_gate_metrics(fields["gate"], cells)
        later = reader.series or part.has_variants  # checkpoints appear, and plans choose variants
        check_gate_choices(fields["gate"], cells, ("models",) if later else ())
    phase = Phase(
        name=name,
        gate=gate_text.strip(),
        critical=_critical(fields["critical"], declared),
        requires=requires,
    )
    return (phase, part) if name else None


def _name(entry: Entry, field: Entry, before: Sequence[str]) -> str:
    if field.absent:
        entry.wrong("has no name; write {name: …}")
    name = field.name()
    if name in before:
        field.wrong(f"{name!r} stands twice; give this phase another name")
    elif "," in name or name.startswith("!"):
        field.wrong(f"{name!r} is ambiguous in a rule; remove commas and !")
    return name


def _requires(entry: Entry, name: str, before: Sequence[str]) -> tuple[str, ...]:
    """Phases that come before; the last of them by default."""
    if entry.absent:
        return (before[-1],) if before else ()
    required = []
    for item in entry.items(single=True):
        other = item.text()
        if item.right and other not in before:
            own = "itself" if other == name else f"{other!r}"
            item.wrong(f"requires {own}, which is not an earlier phase; {hint(other, before)}")
        required.append(other)
    return tuple(required)


def _matrix(
    entry: Entry,
    own: Entry,
    shared: Mapping[str, Entry],
    campaign: DeclaredMatrix | None,
    reader: MatrixReader,
) -> DeclaredMatrix | None:
    """What the cells of the phase are chosen of."""
    if own.absent:
        if campaign is None and entry.right:
            entry.wrong("has no matrix, and the campaign has none with models and benchmarks")
        return campaign
    fields = own.fields(MATRIX, elsewhere=BELONG)
    if all(fields[axis].absent for axis in _AXES) and own.right:
        own.wrong(
            f"names no axis of its own; it has {', '.join(_AXES)} (rules alone: only, exclude)"
        )
    mixed = {
        key: shared[key] if key not in _RULED and field.absent else field
        for key, field in fields.items()
    }
    for axis in ("models", "benchmarks"):
        if mixed[axis].absent:
            own.wrong(f"has no {axis}, and neither has the campaign's matrix; name them")
            return None
    return reader.read(own, mixed)


def _critical(entry: Entry, declared: DeclaredMatrix) -> tuple[Rule, ...]:
    """The rules by which cells are critical: those said here, and benchmarks that say so."""
    named = tuple(
        Rule(benchmarks=(one.benchmark,), subsets=(one.subset,) if one.subset else ())
        for one in declared.workloads
        if one.critical is not None
    )
    if entry.absent or entry.value is False:
        return tuple(dict.fromkeys(named))
    if entry.value is True:
        return (Rule(),)
    return (*read_exclude(entry, declared.axes), *dict.fromkeys(named))


def _check_apart(parts: Iterable[tuple[Entry, Matrix]]) -> None:
    """Refuse a cell that two phases have: it is run once, so its place would be a guess."""
    seen: dict[str, Cell] = {}
    for entry, part in parts:
        for cell in part.expand():
            other = seen.setdefault(cell.fingerprint, cell)
            if other.phase != cell.phase:
                entry.wrong(
                    f"{cell.id} is of phase {other.phase!r} already; choose by only and exclude"
                )
                break


def _check_names(own: DeclaredMatrix | None, parts: Iterable[tuple[Entry, Matrix]]) -> None:
    """Refuse one name for two contents in two matrices of a file: reports list them by name."""
    seen: dict[tuple[str, str], object] = {}
    if own is not None:
        for axis, name, content in _contents(own.matrix):
            seen[axis, name] = content
    for entry, part in parts:
        for axis, name, content in _contents(part):
            if seen.setdefault((axis, name), content) != content:
                advice = OTHER_NAME if axis == "benchmark" else "rename one"
                entry.wrong(f"its {axis} {name!r} is another than the one before; {advice}")


def _contents(matrix: Matrix) -> Iterable[tuple[str, str, object]]:
    for model in matrix.models:
        yield "model", model.model.name, model.model.canonical
    for config in matrix.configs:
        yield "config", config.name, [config.canonical, matrix.overrides.get(config.name)]
    for workload in matrix.workloads:
        yield "benchmark", workload.label, workload.canonical
