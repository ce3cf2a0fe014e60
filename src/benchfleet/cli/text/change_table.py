"""Changes between two sets of results, for the terminal and for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from benchfleet.domain.humanize import counted, examples
from benchfleet.domain.plain_text import markdown_text, one_line
from benchfleet.hints import hint
from benchfleet.reports.release_policy import Judgement, Rule, overall
from benchfleet.reports.side_by_side import Change
from benchfleet.reports.wording import (
    HIGHER,
    LOWER,
    NOT_SURE,
    decimals_of,
    number,
    p_text,
    with_error,
)

if TYPE_CHECKING:
    from rich.table import Table

_HEAD = ("difference", "95 % interval", "significance", "right → wrong", "wrong → right")
_STYLES = {LOWER: "red", HIGHER: "green", NOT_SURE: "dim"}
_MAX_FLIPS = 5  # samples listed of each change and direction
_MAX_FLIP_LINES = 20  # changes whose samples are listed


def change_table(names: tuple[str, str], changes: Sequence[Change]) -> Table:
    """A row for each change; flips are samples that went from right to wrong (−) and back (+)."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    title = f"A {one_line(names[0])}   B {one_line(names[1])}"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=Text(title), title_justify="left")
    table.title_style = "bold"
    table.add_column(Text("benchmark"), overflow="fold")
    for name in ("A → B", "B − A", "p", "flips"):
        table.add_column(Text(name), justify="right", no_wrap=True)
    for change, name in zip(changes, short_names(changes), strict=True):
        means = [_mean(change, mean) for mean in (change.before, change.after)]
        _, _, difference, interval, p_value, lost, gained = _cells(change)
        style = _STYLES.get(difference[-1:], "")
        flips = " ".join(filter(None, (lost and f"−{lost}", gained and f"+{gained}")))
        cells = [" → ".join(means), f"{difference}\n{interval}".strip(), p_value, flips]
        table.add_row(Text(name), *(Text(cell, style=style) for cell in cells))
    return table


def short_names(changes: Sequence[Change]) -> list[str]:
    """What tells the changes apart, on one line each."""
    several = {
        part: len({getattr(change, part) for change in changes}) > 1 for part in ("model", "config")
    }
    subjects = [
        " × ".join(getattr(one, part) for part, vary in several.items() if vary) for one in changes
    ]
    return [
        one_line(f"{subject} / {change.label}" if subject else change.label)
        for subject, change in zip(subjects, changes, strict=True)
    ]


def verdict_lines(
    changes: Sequence[Change], judgements: Sequence[Judgement], rules: Sequence[Rule]
) -> list[str]:
    """Flipped samples, what regressed, and the verdict with its reasons where there is a policy."""
    names = dict(zip(map(id, changes), short_names(changes), strict=True))
    benchmarks = [change.benchmark for change in changes]
    remarks = (*_shared_lines(changes, names), *_missing_sample_lines(changes, names))
    lines = [*_flip_lines(changes, names), *remarks, _regressions(changes)]
    if rules:
        lines.append(f"verdict: {overall(judgements, rules)}")
        lines += [f"  {line}" for line in _reasons(judgements, rules, benchmarks)]
    return lines


def markdown_table(
    names: tuple[str, str],
    changes: Sequence[Change],
    judgements: Sequence[Judgement],
    rules: Sequence[Rule],
    notes: Sequence[str] = (),
) -> str:
    """The same as Markdown, with what a reader must know of both."""
    head = ["benchmark", *names, *_HEAD]
    rows = [[n, *_cells(change)] for n, change in zip(short_names(changes), changes, strict=True)]
    rule = ["---", *["---:"] * (len(head) - 1)]
    table = [head, rule, *rows]
    escaped = [[cell if row is rule else markdown_text(cell) for cell in row] for row in table]
    short = dict(zip(map(id, changes), short_names(changes), strict=True))
    blocks = [
        *([f"**{overall(judgements, rules)}**"] if rules else []),
        "\n".join(f"| {' | '.join(row)} |" for row in escaped),
        markdown_text(_regressions(changes)),
        "\n".join(
            f"- {markdown_text(line)}"
            for line in (
                *_flip_lines(changes, short),
                *_shared_lines(changes, short),
                *_missing_sample_lines(changes, short),
                *notes,
            )
        ),
        "\n".join(
            f"- {markdown_text(line)}"
            for line in _reasons(judgements, rules, [change.benchmark for change in changes])
        ),
        f"{HIGHER} significantly higher, {LOWER} significantly lower, {NOT_SURE} no significant "
        "difference (p < 0.05 after Holm's correction).",
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _digits(change: Change) -> int:
    return decimals_of(max(abs(change.before or 0), abs(change.after or 0)))


def _mean(change: Change, mean: float | None) -> str:
    return "–" if mean is None else number(mean, _digits(change))


def _cells(change: Change) -> list[str]:
    digits = _digits(change)
    means = [
        "–" if mean is None else with_error(mean, stderr, digits)
        for mean, stderr in (
            (change.before, change.before_stderr),
            (change.after, change.after_stderr),
        )
    ]
    difference = change.difference
    if difference.difference is None:
        return [*means, change.remark, "", "", "", ""]
    text = with_error(difference.difference, difference.stderr, digits)
    mark = ""
    if difference.p_value is not None:
        mark = HIGHER if difference.significantly_higher else NOT_SURE
        mark = LOWER if difference.significantly_lower else mark
    interval = " to ".join(number(e, digits, signed=True) for e in difference.interval or ())
    flips = [str(len(some)) if some else "" for some in (change.lost, change.gained)]
    return [*means, f"{text} {mark}".strip(), interval, p_text(difference), *flips]


def _regressions(changes: Sequence[Change]) -> str:
    worse = [change for change in changes if change.regression]
    if not worse:
        tested = sum(change.difference.p_value is not None for change in changes)
        if not tested:
            return "nothing was compared; see the remarks."
        return f"no regression in {counted(tested, 'comparison')}."
    pairs = zip(changes, short_names(changes), strict=True)
    names = [name for change, name in pairs if change.regression]
    return f"{counted(len(worse), 'regression')}: {examples(names, _MAX_FLIPS)}"


def _flip_lines(changes: Sequence[Change], names: Mapping[int, str]) -> list[str]:
    """The samples that went from right to wrong and back, of the largest changes."""
    flipped = [change for change in changes if change.lost or change.gained]
    flipped.sort(key=lambda change: -len(change.lost))
    lines = [f"flips of {names[id(one)]}: {_flips(one)}" for one in flipped[:_MAX_FLIP_LINES]]
    if len(flipped) > _MAX_FLIP_LINES:
        lines.append(f"flips of {len(flipped) - _MAX_FLIP_LINES} more are in --json")
    return lines


def _shared_lines(changes: Sequence[Change], names: Mapping[int, str]) -> Iterator[str]:
    """Changes whose difference leaves out samples that only one side has."""
    for change in changes:
        if change.shares_a_part:
            (before, after), shared = change.samples, change.difference.n
            equal = before == after
            counts = f"{before} on each side" if equal else f"{before} of A and {after} of B"
            yield f"{names[id(change)]}: only {shared} samples are shared, of {counts}"


def _missing_sample_lines(changes: Sequence[Change], names: Mapping[int, str]) -> Iterator[str]:
    """Changes that could not be tested for want of samples."""
    if untested := [names[id(change)] for change in changes if change.lacks_samples]:
        yield (
            f"samples are not here or were changed, so nothing is tested: {examples(untested)}; "
            "`benchfleet merge` brings them, `benchfleet verify` names what was changed"
        )


def _flips(change: Change) -> str:
    """``right → wrong 0-1, 0-7; wrong → right 0-3``."""
    directions = (("right → wrong", change.lost), ("wrong → right", change.gained))
    return "; ".join(
        f"{text} {examples(map(one_line, samples), _MAX_FLIPS)}"
        for text, samples in directions
        if samples
    )


def _reasons(
    judgements: Sequence[Judgement], rules: Sequence[Rule], benchmarks: Sequence[str]
) -> Iterator[str]:
    for one in judgements:
        change, name = one.change, one_line(one.change.name)
        margin = "" if one.margin is None else f", accepted drop {one.margin:.3g}"
        more = f"; about {one.more_samples} more samples would decide" if one.more_samples else ""
        reason = f" ({change.remark})" if change.remark else ""
        yield f"{one.verdict} {name} ({one.rule.level}{margin}){reason}{more}"
    for rule in rules:
        if all(one.rule is not rule for one in judgements):
            near = hint(rule.benchmark, dict.fromkeys(map(one_line, benchmarks)))
            name = one_line(rule.benchmark)
            yield f"no result matches the rule for {name!r} ({rule.level}); {near}"
