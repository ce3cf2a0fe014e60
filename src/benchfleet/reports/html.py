"""A comparison as one HTML page that needs no network and is safe whatever names it holds.

The page is read with JavaScript off too: only its heat maps are drawn by a script. A policy in
its head allows that one script, by its digest, and no request to anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import benchfleet
from benchfleet.domain.plain_text import one_line
from benchfleet.errors import MissingExtra

from . import judging, serving_charts, spending, verdicts, wording
from .charts import heat_map
from .charts.base import Chart
from .charts.collection import charts
from .charts.narrow import narrowed
from .charts.timeline import Spans
from .endings import LEGEND as ENDED
from .figures import figures
from .grids import leaders, page_tables
from .labels import isolated, isolated_words
from .page_script import page_script
from .serving import HEADS, by_series, legend
from .tables import Comparison

_NEEDS = ("altair", "jinja2", "vl_convert")
_MAX_CELLS = 20
_MAX_VERDICTS = 12  # sentences in all; of more, there is a table of leaders


def render(comparison: Comparison, *, title: str, spans: Spans | None = None) -> str:
    """The whole page; `title` is the campaign's name, `spans` are for its time line.

    Raises `MissingExtra` without the packages of the extra ``report``.
    """
    load_libraries()
    with ThreadPoolExecutor(1) as pool:  # it may take two seconds, and none of that is Python
        bundle = pool.submit(page_script, _resource("page.js"))
        drawn = [
            {
                "figure": one,
                "scores": heat_map.scores(one),
                "differences": heat_map.differences(one),
            }
            for one in figures(comparison)
        ]
        more = [*charts(comparison, spans or Spans())]
        script = bundle.result().replace("</script", "<\\/script")
    return str(
        _template().render(
            title=title,
            comparison=comparison,
            wording=wording,
            line=one_line,
            most_cells=_MAX_CELLS,
            style=_trusted(_resource("page.css")),
            script=_trusted(script),
            script_digest=_trusted(_digest(script)),
            data=_trusted(_embedded(drawn, more)),
            figures=drawn,
            charts=more,
            version=benchfleet.__version__,
            **_texts(comparison),
            **page_tables(comparison),
        )
    )


def load_libraries() -> None:
    """Import what draws a page, half a second's work. Raises `MissingExtra` as `render`."""
    missing = [need for need in _NEEDS if find_spec(need) is None]
    if missing:
        raise MissingExtra(
            f"an HTML report needs {', '.join(missing)}; pip install 'benchfleet[report]'"
        )
    import altair as _  # noqa: F401


def _texts(comparison: Comparison) -> dict[str, Any]:
    first, more = verdicts.first_and_more(comparison, _name)
    many = len(first) + len(more) > _MAX_VERDICTS
    bill = spending.total(comparison.spent)
    return {
        "verdicts": [*map(_trusted, first)],
        "more_verdicts": [*map(_trusted, more)],
        "pointer": verdicts.pointer(more),
        "more_heading": verdicts.MORE,
        "leaders": leaders(comparison) if many else None,
        "led": _trusted(verdicts.leads(comparison, _name)) if many else "",
        "took": spending.in_all(bill),
        "remarks": [*spending.rented(comparison.rentals), *spending.remarks(bill)],
        "serving": by_series(comparison.serving),
        "serving_heads": HEADS,
        "scores_legend": wording.scores_legend(comparison),
        "serving_legend": legend(comparison.serving),
        "ended_legend": ENDED,
        "judge_sentences": list(judging.sentences(comparison.judged)),
        "judges_legend": judging.LEGEND,
        "serving_charts": list(serving_charts.charts(comparison.serving)),
        "time_spent": _trusted(wording.time_spent(comparison, _name)),
    }


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["name"] = _name
    environment.filters["sentence"] = _sentence
    return environment.from_string(_resource("page.html.j2"))


def _resource(name: str) -> str:
    return (files(__package__) / "page" / name).read_text(encoding="utf-8")


def _trusted(text: str) -> Any:
    """Text that is escaped already, or our own."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704


def _name(text: str) -> Any:
    """A name of unknown origin, or several that are joined, which turn nothing beside them."""
    return _trusted(f"<bdi>{isolated(escape(one_line(text)), '<bdi>', '</bdi>')}</bdi>")


def _sentence(text: str) -> Any:
    """A sentence of ours with names of unknown origin."""
    return _trusted(isolated_words(escape(one_line(text)), "<bdi>", "</bdi>"))


def _digest(script: str) -> str:
    """As a Content-Security-Policy names a script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _embedded(drawn: Sequence[Mapping[str, Any]], more: Sequence[Chart]) -> str:
    """Charts and data as JSON that holds nothing which would end its element; of the rows the
    names of their fields once, then their values."""
    content = [
        _compact(one["figure"].entries, scores=one["scores"], differences=one["differences"])
        for one in drawn
    ]
    content += [_compact(chart.rows, chart=chart.spec, narrow=narrowed(chart)) for chart in more]
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _compact(rows: Sequence[Mapping[str, Any]], **specs: Any) -> dict[str, Any]:
    fields = [*dict.fromkeys(name for row in rows for name in row)]
    return {**specs, "fields": fields, "values": [[row.get(f) for f in fields] for row in rows]}
