"""``--only``, ``--exclude`` and ``--limit``: the part of a campaign that a command is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchfleet.domain.cell import Cell
from benchfleet.domain.matrix import AXES, Rule, select_cells, with_limit
from benchfleet.errors import CampaignError, Mistake, wrong_option
from benchfleet.hints import hint

CHOSEN_BY = (*AXES, "phases")


def choose_cells(
    cells: Sequence[Cell],
    *,
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    limit: int | None = None,
    option: str = "--only",
) -> list[Cell]:
    """The cells chosen by ``axis=name[,name…]`` texts, over `limit` samples where it is given.

    Texts of `only` must agree axis by axis; each text of `exclude` leaves out by itself. Messages
    call the texts of `only` by `option`, which is empty where they stand alone. Raises
    CampaignError for an unknown axis, and for a choice that leaves nothing.
    """
    mistakes: list[Mistake] = []
    only_rules = _rules(option, only, mistakes)
    exclude_rules = _rules("--exclude", exclude, mistakes)
    if mistakes:
        raise CampaignError("command line", mistakes)
    remaining = _apply_rules(cells, only_rules, exclude_rules)
    for label, texts in ((option, only), ("--exclude", exclude)):
        mistakes += _idle_patterns(label, texts, cells)
    if mistakes:
        raise CampaignError("command line", mistakes)
    if cells and not remaining:
        names = sorted({cell.id for cell in cells})
        some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        texts = [*(f"{option} {t}" for t in only), *(f"--exclude {t}" for t in exclude)]
        raise wrong_option(" ".join(texts).strip(), f"leaves no cell of {some}")
    return remaining if limit is None else with_limit(remaining, limit)


def filter_cells(
    cells: Sequence[Cell], *, only: Sequence[str], exclude: Sequence[str]
) -> list[Cell]:
    """The same of a part of the campaign, of which it may leave nothing."""
    return _apply_rules(cells, _rules("--only", only, []), _rules("--exclude", exclude, []))


def fixed_axes(cells: Sequence[Cell], texts: Sequence[str]) -> frozenset[str]:
    """The axes of ``axis=name[,name…]`` texts on which these cells have one name alone."""
    axes = {_plural(text.partition("=")[0]) for text in texts}
    return frozenset(axis for axis in axes if len(_names(axis, cells)) == 1)


def _apply_rules(
    cells: Sequence[Cell], only: Sequence[Rule], exclude: Sequence[Rule]
) -> list[Cell]:
    together = Rule(**{axis: sum((getattr(r, axis) for r in only), ()) for axis in CHOSEN_BY})
    return select_cells(cells, only=[together] if only else (), exclude=exclude)


def _idle_patterns(option: str, texts: Sequence[str], cells: Sequence[Cell]) -> list[Mistake]:
    """The names and globs that no cell of the campaign has on their axis."""
    mistakes = []
    for text in texts:
        axis, _, names = text.partition("=")
        plural = _plural(axis)
        for name in names.split(","):
            rule = Rule(**{plural: (name.removeprefix("!"),)})
            if cells and not any(rule.matches(cell) for cell in cells):
                known_names = sorted(filter(None, _names(plural, cells)))
                message = (
                    f"no {plural.removesuffix('s')} is called {name!r}; {hint(name, known_names)}"
                )
                if option and _plural(name.partition("=")[0]) in CHOSEN_BY:
                    message = f"each axis needs an option of its own: add {option} {name}"
                mistakes.append(Mistake(key=f"{option} {text}".strip(), message=message))
    return mistakes


def _plural(axis: str) -> str:
    return axis if axis.endswith("s") or axis == "hardware" else f"{axis}s"


def _names(axis: str, cells: Sequence[Cell]) -> set[str]:
    if axis == "hardware":
        return {one.name for cell in cells for one in cell.hardware}
    by_axis: dict[str, Callable[[Cell], str]] = {
        "models": lambda cell: cell.model.name,
        "configs": lambda cell: cell.config.name,
        "benchmarks": lambda cell: cell.workload.benchmark,
        "subsets": lambda cell: cell.workload.subset or "",
        "repeats": lambda cell: str(cell.repeat),
        "phases": lambda cell: cell.phase,
    }
    return {by_axis[axis](cell) for cell in cells}


def _rules(option: str, texts: Sequence[str], mistakes: list[Mistake]) -> list[Rule]:
    rules = []
    for text in texts:
        axis, equals, names = text.partition("=")
        plural = _plural(axis)
        if not equals or not names:
            example = f"write AXIS=NAME, such as {option} configs=dense".replace("  ", " ")
            mistakes.append(Mistake(key=f"{option} {text}".strip(), message=example))
        elif plural not in CHOSEN_BY:
            message = f"no axis {axis!r}; {hint(plural, CHOSEN_BY)}"
            mistakes.append(Mistake(key=f"{option} {text}".strip(), message=message))
        else:
            rules.append(Rule(**{plural: tuple(names.split(","))}))
    return rules
