"""A comparison as one HTML page that needs no network and is safe whatever names it holds.

The page is read with JavaScript off too: only its heat maps are drawn by a script. A policy in
its head allows that one script, by its digest, and no request to anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import benchfleet
from benchfleet.errors import MissingExtra

from . import charts, spending, wording
from .figures import figures
from .grids import leaders, page_tables
from .tables import Comparison

_NEEDS = ("altair", "jinja2", "vl_convert")
_MAX_CELLS = 20
_MAX_VERDICTS = 12  # sentences; of more, a table comes first


def render(comparison: Comparison, *, title: str) -> str:
    """The whole page; `title` is the campaign's name.

    Raises `MissingExtra` without the packages of the extra ``report``.
    """
    missing = [need for need in _NEEDS if find_spec(need) is None]
    if missing:
        raise MissingExtra(
            f"an HTML report needs {', '.join(missing)}; pip install 'benchfleet[report]'"
        )
    drawn = [
        {"figure": one, "scores": charts.scores(one), "differences": charts.differences(one)}
        for one in figures(comparison)
    ]
    script = charts.script(_resource("page.js")).replace("</script", "<\\/script")
    return str(
        _template().render(
            title=title,
            comparison=comparison,
            wording=wording,
            line=wording.one_line,
            most_cells=_MAX_CELLS,
            style=_trusted(_resource("page.css")),
            script=_trusted(script),
            script_digest=_trusted(_digest(script)),
            data=_trusted(_embedded(drawn)),
            figures=drawn,
            version=benchfleet.__version__,
            **_texts(comparison),
            **page_tables(comparison),
        )
    )


def _texts(comparison: Comparison) -> dict[str, Any]:
    verdicts = [_trusted(sentence) for sentence in wording.verdicts(comparison, _name)]
    many = len(verdicts) > _MAX_VERDICTS
    bill = spending.total(comparison.spent)
    return {
        "verdicts": verdicts,
        "leaders": leaders(comparison) if many else None,
        "led": _trusted(wording.led(comparison, _name)) if many else "",
        "took": spending.in_all(bill),
        "remarks": spending.remarks(bill),
        "time_spent": _trusted(wording.time_spent(comparison, _name)),
    }


def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["name"] = _name
    return environment.from_string(_resource("page.html.j2"))


def _resource(name: str) -> str:
    return (files(__package__) / "page" / name).read_text(encoding="utf-8")


def _trusted(text: str) -> Any:
    """Text that is escaped already, or our own."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704


def _name(text: str) -> Any:
    """Text of unknown origin, kept from turning around what is written beside it."""
    return _trusted(f"<bdi>{escape(wording.one_line(text))}</bdi>")


def _digest(script: str) -> str:
    """As a Content-Security-Policy names a script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _embedded(drawn: Sequence[Mapping[str, Any]]) -> str:
    """Charts and data as JSON that holds nothing which would end its element; of the entries the
    names of their fields once, then their values."""
    content = []
    for one in drawn:
        entries = one["figure"].entries
        fields = [*dict.fromkeys(name for entry in entries for name in entry)]
        values = [[entry.get(name) for name in fields] for entry in entries]
        charts = {"scores": one["scores"], "differences": one["differences"]}
        content.append({**charts, "fields": fields, "values": values})
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
