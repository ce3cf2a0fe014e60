"""``benchfleet compare``: two campaigns, configs or models side by side, and a verdict on them."""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from benchfleet.campaign.load import load_campaign
from benchfleet.campaign_results import side_of
from benchfleet.cli.text.change_table import change_table, markdown_table, verdict_lines
from benchfleet.cli.text.output import output_format, print_whole, say, write_output
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain.humanize import counted
from benchfleet.errors import BenchfleetError, CampaignError, Mistake, wrong_option
from benchfleet.reports.release_policy import Judgement, Rule, judge, overall, read_policy
from benchfleet.reports.side_by_side import DEFAULT_MIN_EFFECT, Change, Side, changes
from benchfleet.study import open_study

_PARTS = re.compile(r":(?=\w+=)")  # before each selection; a date may hold other colons
_SUFFIXES = {"": "terminal", ".txt": "terminal", ".md": "markdown", ".json": "json"}


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.description = (
        "Compare two sets of results on the samples that both have. A and B are campaign files, "
        "each with a selection if wanted: study.yaml:configs=dense. With --in, selections are "
        "enough. since=DATE and until=DATE select results by when they ended. "
        "example: benchfleet compare --in study.yaml configs=dense configs=streaming"
    )
    parser.add_argument("before", metavar="A", help="the first set")
    parser.add_argument("after", metavar="B", help="the second set; differences are B less A")
    parser.add_argument("--in", dest="campaign", metavar="FILE", help="the campaign of both sets")
    parser.add_argument(
        "--ledger",
        metavar="URL",
        action="append",
        default=[],
        help="the ledger of both sets; given twice, of A and of B",
    )
    parser.add_argument(
        "--min-effect",
        metavar="D",
        type=float,
        default=DEFAULT_MIN_EFFECT,
        help="the smallest drop that is a regression; the default is %(default)s",
    )
    parser.add_argument(
        "--fail-on-regression", action="store_true", help="exit with 1 if there is a regression"
    )
    parser.add_argument("--policy", metavar="FILE", help="rules for a verdict: GO exits with 0")
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="write it there: .md, .json, or .txt"
    )
    parser.add_argument("--markdown", action="store_true", help="a summary for a pull request")
    parser.add_argument("--json", action="store_true", help="all of it as JSON")


def main(arguments: argparse.Namespace) -> int:
    """Show what changed from A to B."""
    if arguments.json and arguments.markdown:
        raise wrong_option("--json", "and --markdown exclude each other; drop one of them")
    form = _form(arguments)
    if arguments.before == arguments.after and len(set(arguments.ledger)) < 2:
        raise wrong_option(arguments.after, "is compared with itself; name another B")
    if len(arguments.ledger) > 2:
        raise wrong_option("--ledger", "is given more than twice; give one for A and one for B")
    rules = _rules(arguments.policy) if arguments.policy else ()
    ledgers = [*arguments.ledger, *(arguments.ledger or ["", ""])][:2]
    before = _side(arguments.before, arguments.campaign, ledgers[0])
    after = _side(arguments.after, arguments.campaign, ledgers[1])
    compared = changes(before, after, min_effect=arguments.min_effect)
    judgements = judge(compared, rules)
    stream = io.StringIO() if arguments.output else sys.stdout
    _show(stream, form, (before, after), compared, judgements, rules)
    if isinstance(stream, io.StringIO):
        write_output(arguments.output, stream.getvalue().encode("utf-8", "backslashreplace"))
        say(f"changes  {display_path(arguments.output)}")
    refused = bool(rules) and overall(judgements, rules) != "GO"
    failed = False
    if arguments.fail_on_regression:
        failed = any(change.regression for change in compared)
        if all(change.difference.p_value is None for change in compared):
            failed = True  # nothing could show a regression
            message = "nothing was compared, so --fail-on-regression fails; see the remarks"
            say(message, to=sys.stderr)
        elif untested := sum(change.lacks_samples for change in compared):
            failed = True
            what = counted(untested, "comparison", "lack")
            say(f"{what} samples, so --fail-on-regression fails; see the remarks", to=sys.stderr)
    return 1 if refused or failed else 0


def _form(arguments: argparse.Namespace) -> str:
    """How it is written: as an option says, or the ending of the file."""
    requested = "json" if arguments.json else "markdown" if arguments.markdown else None
    advice = "add --markdown or --json"
    return output_format(arguments.output, requested, _SUFFIXES, advice=advice)


def _show(
    stream: TextIO,
    form: str,
    sides: tuple[Side, Side],
    compared: Sequence[Change],
    judgements: Sequence[Judgement],
    rules: Sequence[Rule],
) -> None:
    names = (sides[0].name, sides[1].name)
    notes = list(dict.fromkeys((*sides[0].notes, *sides[1].notes)))
    if form == "json":
        content = {
            "before": names[0],
            "after": names[1],
            "changes": [change.to_dict() for change in compared],
            "judgements": [one.to_dict() for one in judgements],
            "verdict": overall(judgements, rules) if rules else None,
            "notes": notes,
        }
        stream.write(json.dumps(content, indent=2) + "\n")
    elif form == "markdown":
        stream.write(markdown_table(names, compared, judgements, rules, notes))
    else:
        print_whole(change_table(names, compared), to=stream)
        say(*verdict_lines(compared, judgements, rules), *notes, to=stream)


def _side(text: str, campaign: str | None, ledger: str) -> Side:
    """The cells and records that one of the two texts names."""
    file, *selections = _PARTS.split(text) if not campaign else (campaign, *_PARTS.split(text))
    if campaign and Path(text).is_file():
        raise wrong_option(f"--in {campaign}", f"excludes the campaign file {text}; drop one")
    if not campaign and "=" in file:
        raise wrong_option(text, "names no campaign; write FILE:axis=name, or add --in FILE")
    study = open_study(load_campaign(file), ledger=ledger)
    name = ":".join(selections) if campaign else text
    side = side_of(study, selections, name=name, cells=study.cells())
    if not study.has_ledger():
        raise BenchfleetError(f"{file} has no ledger yet; run it first: benchfleet run {file}")
    return side


def _rules(file: str) -> tuple[Rule, ...]:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise BenchfleetError(f"{file} cannot be read ({error.strerror})") from None
    import yaml

    try:
        content = json.loads(text) if file.endswith(".json") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        message = " ".join(str(error).split())
        raise CampaignError(file, [Mistake(key="", message=f"cannot be read: {message}")]) from None
    return read_policy(content, file=file)
