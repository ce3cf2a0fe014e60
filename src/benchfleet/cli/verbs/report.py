"""``benchfleet report``: what won, by how much, and whether it is sure."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

from benchfleet.cli.shared import missing_ledger, options
from benchfleet.cli.text.output import say
from benchfleet.cli.text.run_summary import comparison_of, show
from benchfleet.cli.text.terminal import display_path
from benchfleet.errors import BenchfleetError, ResultsError, wrong_option
from benchfleet.reports import exports, html, markdown
from benchfleet.reports.tables import Comparison
from benchfleet.study import Study

FORMATS = ("terminal", "markdown", "html", "csv", "json")
_SUFFIXES = {
    "": "terminal",
    ".txt": "terminal",
    ".md": "markdown",
    ".html": "html",
    ".csv": "csv",
    ".json": "json",
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


def main(arguments: argparse.Namespace) -> int:
    """Show model × config for each benchmark, with standard errors and differences."""
    drawn = _format(arguments)
    study, cells = options.opened(arguments)
    output = arguments.output or (_page(study) if drawn == "html" else _STDOUT)
    records = missing_ledger.records_of(arguments, study, cells)
    comparison = comparison_of(study, cells, records, arguments.baseline)
    if drawn == "terminal" and output == _STDOUT:
        show(study, comparison)
        return 0
    text = _drawn(study, comparison, drawn)
    if output == _STDOUT:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
    else:
        _write(output, text)
        say(f"report   {display_path(output)}")
    return 0


def _format(arguments: argparse.Namespace) -> str:
    requested: str | None = arguments.format
    if arguments.json and requested not in {None, "json"}:
        raise BenchfleetError(
            f"--json and --format {requested} exclude each other; drop one of them"
        )
    if arguments.json or requested:
        return requested or "json"
    suffix = arguments.output.suffix.lower() if arguments.output else ""
    if suffix not in _SUFFIXES:
        known_suffixes = ", ".join(filter(None, _SUFFIXES))
        message = f"unknown format {suffix!r}: use {known_suffixes}, or choose one with --format"
        raise wrong_option(f"--output {arguments.output}", message)
    return _SUFFIXES[suffix]


def _page(study: Study) -> Path:
    """Where the page goes when no place is named; looking at results makes no folder for them."""
    if not study.layout.root.is_dir():
        raise ResultsError(
            f"{study.layout.root} is not there, so nothing was run yet; "
            f"`benchfleet run {study.campaign.cli_name}` first, or name a file with --output"
        )
    return study.layout.report_page


def _drawn(study: Study, comparison: Comparison, drawn: str) -> str:
    title = study.campaign.name
    if drawn == "html":
        return html.render(comparison, title=title)
    if drawn == "markdown":
        return markdown.render(comparison, title=title)
    if drawn == "csv":
        return exports.to_csv(comparison)
    if drawn == "json":
        return exports.to_json(comparison, title=title)
    text = io.StringIO()
    show(study, comparison, text)
    return text.getvalue()


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
    except OSError as error:
        raise ResultsError(
            f"{file} cannot be written ({error.strerror}); name another with --output"
        ) from None
