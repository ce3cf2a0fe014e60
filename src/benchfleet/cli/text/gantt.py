"""A plan as a Gantt chart: for a terminal, and as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from benchfleet.domain.humanize import duration
from benchfleet.planner.assignment import Assignment

_WIDTH = 60  # characters of the longest bar
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_COLOURS = (
    "#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#eeca3b", "#9d755d",
    "#ff9da6", "#79706e",
)  # fmt: skip
_LOADING = "#d5d5d5"
_WAITING = "░"
_SETUP = "bringing and loading a model"
_NARROW = 3.0  # pixels: bars without an edge
_ROW, _BAR, _LEFT, _RIGHT, _SPAN = 26, 18, 150, 24, 780  # pixels
_TICKS = 8  # at most
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_STEPS = (  # seconds between ticks
    *(1, 2, 5, 10, 20, 30),
    *(_MINUTE * many for many in (1, 2, 5, 10, 20, 30)),
    *(_HOUR * many for many in (1, 2, 3, 6, 12, 24, 48, 96, 240)),
)


def rows(plan: Assignment) -> Iterator[tuple[str, list[tuple[float, float, str, str]]]]:
    """Each slot that does anything: its name, and begin, end, model ("" for none) and label."""
    for host, slots in sorted(plan.slots.items()):
        for slot in range(slots):
            bars = [
                (one.begin, one.end, one.cell.model.name, str(one.cell.id))
                for one in plan.cells
                if one.host == host and slot in one.slots
            ]
            bars += [
                (piece.begin, piece.end, "", f"{piece.model}: brought and loaded")
                for piece in plan.setups
                if piece.host == host and slot in piece.slots
            ]
            if bars:
                yield (f"{host}/{slot}" if slots > 1 else host), sorted(bars)


def text(plan: Assignment) -> Iterator[str]:
    """A line for each slot, in which a letter stands for a model, ░ for loading."""
    models = _models(plan)
    letters = {name: _LETTERS[place % len(_LETTERS)] for place, name in enumerate(models)}
    found = list(rows(plan))
    wide = max((len(name) for name, _ in found), default=0)
    for name, bars in found:
        line = [" "] * _WIDTH
        for place in range(_WIDTH):
            middle = (place + 0.5) * plan.makespan / _WIDTH
            for begin, end, model, _ in bars:
                if begin <= middle < end:
                    line[place] = letters[model] if model else _WAITING
        for begin, end, model, _ in bars:  # cells too short for a column of their own
            place = min(_WIDTH - 1, int((begin + end) / 2 / plan.makespan * _WIDTH))
            if model and line[place] in (" ", _WAITING):
                line[place] = letters[model]
        yield f"{name:<{wide}} │{''.join(line)}│ {duration(max(end for _, end, _, _ in bars))}"
    if found:
        yield f"{'':<{wide}}  0{duration(plan.makespan):>{_WIDTH - 1}}"
        legend = [f"{letters[name]} {name}" for name in models]
        yield ", ".join([*legend, f"{_WAITING} {_SETUP}"] if plan.setups else legend)


def svg(plan: Assignment, *, title: str) -> str:
    """A picture of its own, without anything to fetch; bars tell their cell when pointed at."""
    found = list(rows(plan))
    models = _models(plan)
    colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(models)}
    left = max([_LEFT, *(12 + 7 * len(name) for name, _ in found)])
    top = 70
    foot = top + _ROW * len(found)
    keys = list(_keys([*models, _SETUP] if plan.setups else models, left))
    height = foot + 46 + 20 * (1 + max((line for _, line, _ in keys), default=0))
    width = left + _SPAN + _RIGHT
    scale = _SPAN / plan.makespan if plan.makespan else 0.0
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="12" y="24" font-size="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="12" y="44" fill="#555">{escape(headline(plan))}</text>',
    ]
    step = next((one for one in _STEPS if plan.makespan / one <= _TICKS), plan.makespan)
    for tick in range(int(plan.makespan / step) + 1 if step else 0):
        x = left + tick * step * scale
        anchor = "middle" if x < left + _SPAN - 20 else "end"
        lines.append(
            f'<line x1="{x:.1f}" y1="{top - 4}" x2="{x:.1f}" y2="{foot}" stroke="#e4e4e4"/>'
            f'<text x="{x:.1f}" y="{foot + 16}" text-anchor="{anchor}" fill="#555">'
            f"{_tick(tick * step)}</text>"
        )
    for name, (begin, _) in plan.phases.items():
        if name:
            x = left + begin * scale
            lines.append(
                f'<line x1="{x:.1f}" y1="{top - 8}" x2="{x:.1f}" y2="{foot}" stroke="#333" '
                f'stroke-dasharray="4 3"/><text x="{x + 3:.1f}" y="{top - 8}" fill="#333">'
                f"{escape(name)}</text>"
            )
    for row, (name, bars) in enumerate(found):
        y = top + _ROW * row + (_ROW - _BAR) / 2
        lines.append(
            f'<text x="{left - 8}" y="{y + 13:.1f}" text-anchor="end">{escape(name)}</text>'
        )
        for begin, end, model, label in bars:
            told = f"{label} ({duration(end - begin)})"
            length = max(1.5 if model else 0.5, (end - begin) * scale)
            edge = ' stroke="white" stroke-width="0.6"' if length > _NARROW else ""
            lines.append(
                f'<rect x="{left + begin * scale:.2f}" y="{y:.1f}" '
                f'width="{length:.2f}" height="{_BAR}" '
                f'fill="{colours[model] if model else _LOADING}"{edge}>'
                f"<title>{escape(told)}</title></rect>"
            )
    for x, line, name in keys:
        y = foot + 34 + 20 * line
        colour = colours.get(name, _LOADING)
        lines.append(
            f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>'
            f'<text x="{x + 17}" y="{y + 10.5}">{escape(name)}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def headline(plan: Assignment) -> str:
    """What the plan comes to, in one line."""
    if not plan.cells:
        return "nothing to run"
    return (
        f"{long(plan.makespan)} instead of {long(plan.sequential)} one after the other; "
        f"no plan takes less than {long(plan.bound)} (within {100 * plan.gap:.1f} %)"
    )


def long(seconds: float) -> str:
    """A time as plans have it: days, where it is several."""
    return f"{seconds / _DAY:.1f} days" if seconds >= 2 * _DAY else duration(seconds)


def _tick(after: float) -> str:
    seconds = round(after)
    if seconds >= _HOUR:
        hours, rest = divmod(seconds, _HOUR)
        return f"{hours} h" if not rest else f"{hours} h {rest // _MINUTE}"
    minutes, rest = divmod(seconds, _MINUTE)
    return f"{rest} s" if not minutes else f"{minutes} min" if not rest else f"{minutes} min {rest}"


def _models(plan: Assignment) -> list[str]:
    return list(dict.fromkeys(one.cell.model.name for one in plan.cells))


def _keys(names: Sequence[str], left: int) -> Iterator[tuple[int, int, str]]:
    """Where each entry of the legend stands: pixels, line, name."""
    x, line = left, 0
    for name in names:
        size = 40 + 7 * len(name)
        if x + size > left + _SPAN and x > left:
            x, line = left, line + 1
        yield x, line, name
        x += size
