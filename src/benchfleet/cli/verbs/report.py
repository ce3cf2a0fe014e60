"""``benchfleet report``: what won, by how much, and whether it is sure."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from benchfleet.campaign_results import comparison_of, sample_scores_of
from benchfleet.cli.shared import missing_ledger, missing_models, options
from benchfleet.cli.text.output import output_format, say, write_output
from benchfleet.cli.text.run_summary import show
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain.cell import Cell
from benchfleet.errors import BenchfleetError, ResultsError, wrong_option
from benchfleet.garbage import no_collection
from benchfleet.ledger.history import ATTEMPT_EVENTS, Attempt, attempts_by_cell
from benchfleet.reports import exports, html, latex, markdown
from benchfleet.reports.charts import images
from benchfleet.reports.charts.collection import KINDS, REASONS, charts_of_kind
from benchfleet.reports.charts.timeline import Spans, longest_spans
from benchfleet.reports.tables import Comparison
from benchfleet.study import Study

FORMATS = (
    "terminal",
    "markdown",
    "html",
    "csv",
    "json",
    "parquet",
    "latex",
    *images.FORMATS,
)
_SUFFIXES = {
    "": "terminal",
    ".txt": "terminal",
    ".md": "markdown",
    ".html": "html",
    ".csv": "csv",
    ".json": "json",
    ".parquet": "parquet",
    ".tex": "latex",
    ".png": "png",
    ".svg": "svg",
    ".pdf": "pdf",
}
_STDOUT = Path("-")


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.optional_campaign(parser, example="benchfleet report study.yaml --format html")
    options.choice(parser)
    parser.add_argument("--baseline", metavar="CONFIG", help="compare with this config")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="how it is drawn; as --output's ending says, or else for the terminal",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=Path,
        help="write it there, - for stdout; html goes to report.html among the results",
    )
    parser.add_argument(
        "--chart",
        choices=KINDS,
        help="what an image shows; the default is the heat map of scores",
    )


def main(arguments: argparse.Namespace) -> int:
    """Show model × config for each benchmark, with standard errors and differences."""
    with no_collection():
        return _main(arguments)


def _main(arguments: argparse.Namespace) -> int:
    drawn = _format(arguments)
    if arguments.chart and drawn not in images.FORMATS:
        message = "is for images; add --output FILE.png, or --format png, svg or pdf"
        raise wrong_option(f"--chart {arguments.chart}", message)
    study, cells = missing_models.opened(arguments)
    output = arguments.output or (_page(study) if drawn == "html" else _STDOUT)
    records = missing_ledger.records_of(arguments, study, cells, always=True)
    scores = sample_scores_of(study, records)  # other processes read while this one prepares
    if drawn == "html":
        html.load_libraries()
    has_time_line = drawn == "html" or arguments.chart == "timeline"
    spans = _spans(study, cells) if has_time_line else Spans()
    comparison = comparison_of(study, cells, records, arguments.baseline, scores)
    if drawn == "terminal" and output == _STDOUT:
        show(study, comparison)
        return 0
    content = _drawn(arguments, study, comparison, spans, drawn)
    if output == _STDOUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        write_output(output, content)
        say(f"report   {display_path(output)}")
    return 0


def _format(arguments: argparse.Namespace) -> str:
    requested: str | None = arguments.format
    if arguments.json and requested not in {None, "json"}:
        raise BenchfleetError(
            f"--json and --format {requested} exclude each other; drop one of them"
        )
    requested = requested or ("json" if arguments.json else None)
    return output_format(arguments.output, requested, _SUFFIXES, advice="choose one with --format")


def _page(study: Study) -> Path:
    """Where the page goes when no place is named; looking at results makes no folder for them."""
    if not study.layout.root.is_dir():
        raise ResultsError(
            f"{study.layout.root} is not there, so nothing was run yet; "
            f"`benchfleet run {study.campaign.cli_arguments}` first, or name a file with --output"
        )
    return study.layout.report_page


def _spans(study: Study, cells: Sequence[Cell]) -> Spans:
    """The attempts of these cells, for a time line."""
    nothing: dict[str, list[Attempt]] = {}
    attempts = study.query(
        lambda ledger: attempts_by_cell(ledger.events(kinds=ATTEMPT_EVENTS)), default=nothing
    )
    return longest_spans(cells, attempts)


def _drawn(
    arguments: argparse.Namespace,
    study: Study,
    comparison: Comparison,
    spans: Spans,
    drawn: str,
) -> bytes:
    title = study.campaign.name
    if drawn in images.FORMATS:
        kind = arguments.chart or "scores"
        drawings = charts_of_kind(kind, comparison, spans)
        if not drawings:
            raise ResultsError(f"no chart {kind!r} yet: {REASONS[kind]}")
        return images.image(drawings, drawn)
    if drawn == "parquet":
        return exports.to_parquet(comparison)
    text = {
        "html": lambda: html.render(comparison, title=title, spans=spans),
        "markdown": lambda: markdown.render(comparison, title=title),
        "csv": lambda: exports.to_csv(comparison),
        "json": lambda: exports.to_json(comparison, title=title),
        "latex": lambda: latex.render(comparison, title=title),
        "terminal": lambda: _terminal(study, comparison),
    }[drawn]()
    return text.encode("utf-8", "backslashreplace")


def _terminal(study: Study, comparison: Comparison) -> str:
    text = io.StringIO()
    show(study, comparison, text)
    return text.getvalue()
