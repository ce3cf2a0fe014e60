"""Renders templates: relative links, and filters for foreign text, times and sizes."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from benchfleet.dashboard import foreign
from benchfleet.dashboard.views.matrix import LETTERS
from benchfleet.domain.humanize import counted, duration, gigabytes
from benchfleet.domain.worker_progress import MAX_CLOCK_DIFFERENCE_S

PAGES = {
    "overview": "Overview",
    "matrix": "Matrix",
    "failures": "Failures",
    "machines": "Machines",
    "compare": "Compare",
    "plan": "Plan",
    "cost": "Cost",
}
STATE_NAMES = {
    "pending": "waiting",
    "retrying": "waiting for a retry",
    "running": "running",
    "success": "done",
    "partial": "partial",
    "failed": "failed",
    "cancelled": "cancelled",
    "skipped": "skipped",
}


class Links:
    """Makes relative addresses, so that pages work behind any prefix and as files on disk."""

    def __init__(
        self, depth: int, *, files_on_disk: bool = False, cells: Collection[str] = ()
    ) -> None:
        self._up, self.on_disk, self._cells = "../" * depth, files_on_disk, cells

    def has_cell(self, id: str) -> bool:
        """Whether the cell has a page: on disk not all have one."""
        return not self.on_disk or id in self._cells

    def page(self, page: str, /, **query: Any) -> str:
        """A page of the campaign, with what is not empty of the query."""
        path = "/".join(quote(part, safe="") for part in page.split("/"))
        if self.on_disk:
            return f"{self._up}{'index' if page == 'overview' else path}.html"
        parameters = {k: v for k, v in query.items() if v not in ("", None, False, ())}
        address = f"{self._up}{'' if page == 'overview' else path}" or "./"
        return f"{address}?{urlencode(parameters, doseq=True)}" if parameters else address

    def file(self, path: str, /, **query: Any) -> str:
        """A file of the campaign that keeps its name on disk, such as a picture."""
        if self.on_disk:
            return f"{self._up}{path}"
        return self.page(path, **query)

    def root(self, path: str) -> str:
        """An address that is not of one campaign, such as a script."""
        return f"{self._up}{path}" if self.on_disk else f"{self._up}../../{path}"


@cache
def environment() -> Any:
    """The templates' environment; it escapes everything."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    env = Environment(
        loader=PackageLoader("benchfleet.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(
        line=foreign.one_line,
        breakable=foreign.breakable,
        short_path=foreign.short_path,
        visible=foreign.visible,
        log=foreign.log_html,
        took=duration,
        span=span,
        counted=counted,
        gb=gigabytes,
        clock=clock,
        ago=ago,
        thousands=lambda number: f"{number:,}",
        score=lambda value: "" if value is None else f"{value:.3f}".replace("-", "−"),
    )
    env.globals.update(
        LETTERS=LETTERS, STATE_NAMES=STATE_NAMES, PAGES=PAGES, now=time.time, min=min, max=max
    )
    return env


def render(template: str, values: Mapping[str, Any]) -> str:
    """The text of a template."""
    return str(environment().get_template(template).render(values))


def clock(at: float) -> str:
    """``2026-01-31 14:02:07``, in the server's time zone; "" if it is not known."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at else ""


def ago(at: float) -> str:
    """``40 s ago``; "" if it is not known. Of a clock that is ahead nobody knows."""
    if not at:
        return ""
    seconds = time.time() - at
    if seconds < -MAX_CLOCK_DIFFERENCE_S:
        return "by a clock that is ahead"
    seconds = max(0.0, seconds)
    if seconds < 60:
        return f"{seconds:.0f} s ago"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min ago"
    if seconds < 172_800:
        return f"{seconds / 3600:.0f} h ago"
    return f"{seconds / 86_400:.0f} days ago"


def span(seconds: float) -> str:
    """``10 min``, ``1 h``, ``3 min 05 s``: a duration without zeros at its end."""
    return duration(seconds).removesuffix(" 00 s").removesuffix(" 00 min")


def asset(name: str) -> bytes:
    """A file of the folder `static`."""
    return (files("benchfleet.dashboard") / "static" / name).read_bytes()
