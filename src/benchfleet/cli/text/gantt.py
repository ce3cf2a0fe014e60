"""A plan as a Gantt chart: for a terminal, and as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from benchfleet.domain.humanize import duration
from benchfleet.planner.assignment import Assignment

_WIDTH_COLUMNS = 60  # characters of the longest bar
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_COLOURS = (
    "#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#eeca3b", "#9d755d",
    "#ff9da6", "#79706e",
)  # fmt: skip
_LOADING = "#d5d5d5"
_WAITING = "░"
_SETUP = "model download and load"
_MIN_EDGED_PX = 3.0  # pixels: bars without an edge
_ROW_PX, _BAR_PX, _LEFT_PX, _RIGHT_PX, _SPAN_PX = 26, 18, 150, 24, 780  # pixels
_MAX_TICKS = 8  # at most
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_TICK_STEPS_S = (  # seconds between ticks
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
                (piece.begin, piece.end, "", f"{piece.model}: download and load")
                for piece in plan.setups
                if piece.host == host and slot in piece.slots
            ]
            if bars:
                yield (f"{host}/{slot}" if slots > 1 else host), sorted(bars)


def text(plan: Assignment) -> Iterator[str]:
    """A line for each slot, in which a letter stands for a model, ░ for loading."""
    models = _models(plan)
    letters = {name: _LETTERS[column % len(_LETTERS)] for column, name in enumerate(models)}
    slot_rows = list(rows(plan))
    wide = max((len(name) for name, _ in slot_rows), default=0)
    for name, bars in slot_rows:
        line = [" "] * _WIDTH_COLUMNS
        for column in range(_WIDTH_COLUMNS):
            middle = (column + 0.5) * plan.makespan / _WIDTH_COLUMNS
            for begin, end, model, _ in bars:
                if begin <= middle < end:
                    line[column] = letters[model] if model else _WAITING
        for begin, end, model, _ in bars:  # cells too short for a column of their own
            column = min(
                _WIDTH_COLUMNS - 1, int((begin + end) / 2 / plan.makespan * _WIDTH_COLUMNS)
            )
            if model and line[column] in (" ", _WAITING):
                line[column] = letters[model]
        yield f"{name:<{wide}} │{''.join(line)}│ {duration(max(end for _, end, _, _ in bars))}"
    if slot_rows:
        yield f"{'':<{wide}}  0{duration(plan.makespan):>{_WIDTH_COLUMNS - 1}}"
        legend = [f"{letters[name]} {name}" for name in models]
        yield ", ".join([*legend, f"{_WAITING} {_SETUP}"] if plan.setups else legend)


def svg(plan: Assignment, *, title: str) -> str:
    """A picture of its own, without anything to fetch; bars tell their cell when pointed at."""
    slot_rows = list(rows(plan))
    models = _models(plan)
    colours = {name: _COLOURS[index % len(_COLOURS)] for index, name in enumerate(models)}
    left_px = max([_LEFT_PX, *(12 + 7 * len(name) for name, _ in slot_rows)])
    top = 70
    foot = top + _ROW_PX * len(slot_rows)
    keys = list(_keys([*models, _SETUP] if plan.setups else models, left_px))
    height = foot + 46 + 20 * (1 + max((line for _, line, _ in keys), default=0))
    width = left_px + _SPAN_PX + _RIGHT_PX
    scale = _SPAN_PX / plan.makespan if plan.makespan else 0.0
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="12" y="24" font-size="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="12" y="44" fill="#555">{escape(headline(plan))}</text>',
    ]
    step = next((one for one in _TICK_STEPS_S if plan.makespan / one <= _MAX_TICKS), plan.makespan)
    for tick in range(int(plan.makespan / step) + 1 if step else 0):
        x = left_px + tick * step * scale
        anchor = "middle" if x < left_px + _SPAN_PX - 20 else "end"
        lines.append(
            f'<line x1="{x:.1f}" y1="{top - 4}" x2="{x:.1f}" y2="{foot}" stroke="#e4e4e4"/>'
            f'<text x="{x:.1f}" y="{foot + 16}" text-anchor="{anchor}" fill="#555">'
            f"{_tick(tick * step)}</text>"
        )
    for name, (begin, _) in plan.phases.items():
        if name:
            x = left_px + begin * scale
            lines.append(
                f'<line x1="{x:.1f}" y1="{top - 8}" x2="{x:.1f}" y2="{foot}" stroke="#333" '
                f'stroke-dasharray="4 3"/><text x="{x + 3:.1f}" y="{top - 8}" fill="#333">'
                f"{escape(name)}</text>"
            )
    for row, (name, bars) in enumerate(slot_rows):
        y = top + _ROW_PX * row + (_ROW_PX - _BAR_PX) / 2
        lines.append(
            f'<text x="{left_px - 8}" y="{y + 13:.1f}" text-anchor="end">{escape(name)}</text>'
        )
        for begin, end, model, label in bars:
            tooltip = f"{label} ({duration(end - begin)})"
            length = max(1.5 if model else 0.5, (end - begin) * scale)
            edge = ' stroke="white" stroke-width="0.6"' if length > _MIN_EDGED_PX else ""
            lines.append(
                f'<rect x="{left_px + begin * scale:.2f}" y="{y:.1f}" '
                f'width="{length:.2f}" height="{_BAR_PX}" '
                f'fill="{colours[model] if model else _LOADING}"{edge}>'
                f"<title>{escape(tooltip)}</title></rect>"
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
        f"{format_span(plan.makespan)} instead of {format_span(plan.sequential)} sequentially; "
        f"lower bound {format_span(plan.bound)} (within {100 * plan.gap:.1f} %)"
    )


def format_span(seconds: float) -> str:
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


def _keys(names: Sequence[str], left_px: int) -> Iterator[tuple[int, int, str]]:
    """Where each entry of the legend stands: pixels, line, name."""
    x, line = left_px, 0
    for name in names:
        size = 40 + 7 * len(name)
        if x + size > left_px + _SPAN_PX and x > left_px:
            x, line = left_px, line + 1
        yield x, line, name
        x += size
