"""What won, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from benchfleet.domain.humanize import counted

from .tables import Comparison
from .winners import Winner
from .wording import (
    MAX_LISTED_NAMES,
    Escape,
    decimals,
    listed,
    number,
    p_text,
    with_error,
)

MORE = "More on what won"  # the section of what `first_and_more` gives second
_MAX_FIRST = 10  # sentences, with which a report begins
_NOT_COMPARED = "Too few shared samples or repeats to compare with {names}."
_SUITE_NOT_COMPARED = (
    "Not compared with {names}: a part has fewer than two shared values, or another version."
)
_MAX_NAMED = 3  # contenders; more are "the others" if that says all


def sentences(comparison: Comparison, escape: Escape) -> list[str]:
    """A sentence for each suite, then for each benchmark: what leads, by how much, and whether that
    is significant. With several models and configs, what leads within each model comes after."""
    first, more = first_and_more(comparison, escape)
    return first + more


def first_and_more(comparison: Comparison, escape: Escape) -> tuple[list[str], list[str]]:
    """The `sentences` before the tables of a report, and those after them.

    Before come the first ten for suites and benchmarks; after come the others, and those within
    each model.
    """
    overall = [*_overall(comparison, escape)]
    first, more = overall[:_MAX_FIRST], overall[_MAX_FIRST:]
    if len(comparison.models) > 1 and len(comparison.configs) > 1:
        more += _model_verdicts(comparison, escape)
    return first, more


def pointer(more: Sequence[str]) -> str:
    """Where the sentences after the tables are."""
    return f"{counted(len(more), 'more sentence')}: see “{MORE}” below."


def _overall(comparison: Comparison, escape: Escape) -> Iterator[str]:
    """A sentence for each suite and benchmark, over all models and configs."""
    for winner in comparison.best_suites:
        digits = decimals(comparison, winner.benchmark)
        verdict = _verdict(winner, escape, digits, not_compared=_SUITE_NOT_COMPARED)
        yield f"suite {escape(winner.benchmark)}: {verdict}"
    for winner in comparison.best:
        digits = decimals(comparison, winner.benchmark)
        yield f"{escape(winner.benchmark)}: {_verdict(winner, escape, digits)}"


def _model_verdicts(comparison: Comparison, escape: Escape) -> Iterator[str]:
    """What leads within each model; benchmarks with the same verdict share a sentence."""
    groups: dict[tuple[str, str], list[str]] = {}
    for winner in comparison.winners:
        key = (escape(winner.model), _verdict(winner, escape))
        groups.setdefault(key, []).append(escape(winner.benchmark))
    for (model, verdict), benchmarks in groups.items():
        yield f"{model} on {listed(benchmarks)}: {verdict}"


def _verdict(
    winner: Winner,
    escape: Escape,
    digits: int | None = None,
    *,
    not_compared: str = _NOT_COMPARED,
) -> str:
    """What leads and how surely; with its numbers where decimal digits are given. `not_compared`
    says why some ``{names}`` are not compared with it."""

    def names(contenders: Sequence[str]) -> str:
        return listed([escape(name) for name in contenders])

    def numbers(text: str) -> str:
        return "" if digits is None else text

    leader, better = escape(winner.name), winner.better_than
    leads, lead, is_best = "has the highest mean", "have the highest mean", "is best"
    if winner.leads_on_shared:
        leads, lead = "leads on shared samples", "lead on shared samples"
        is_best = leads
    equal = [name for name in winner.not_different_from if name not in winner.tied_with]
    mean = numbers(f", {with_error(winner.mean, winner.stderr, digits or 0)}")
    margin = numbers(_margin(winner, escape, digits or 0))
    are_all = not better and not winner.not_compared_with
    undecided = f"no significant difference from {names(equal)}" if equal else ""
    if are_all and len(equal) > _MAX_NAMED:
        undecided = f"no significant difference from the {len(equal)} others"
    if undecided and winner.too_few_samples:
        undecided += numbers(" (too few samples to detect any difference)")
    elif undecided and winner.detectable is not None:
        undecided += numbers(f" (detectable from {number(winner.detectable, digits or 0)})")
    if winner.ties:
        text = f"{names((winner.name, *winner.tied_with))} have the same mean{mean}."
    elif winner.tied_with:
        text = f"{names((winner.name, *winner.tied_with))} {lead}{mean}"
        text += f"; {leader} is significantly higher than {names(better)}{margin}" if better else ""
        text += f"; {undecided}." if equal else "."
    elif better:
        open_ = equal or winner.not_compared_with
        text = f"{leader} {leads if open_ else is_best}{mean}; "
        text += f"significantly higher than {names(better)}{margin}"
        text += f"; {undecided}." if equal else "."
    elif equal:
        text = f"{leader} {leads}{mean}; {undecided}."
    elif winner.not_compared_with:
        text = f"{leader} {leads}{mean}."
    else:
        text = f"{leader} is the only one with a result{mean}."
    if winner.not_compared_with:
        text += " " + not_compared.format(names=names(winner.not_compared_with))
    if winner.without_result:
        text += f" No result: {names(winner.without_result)}."
    return text


def _margin(winner: Winner, escape: Escape, digits: int) -> str:
    """``, by 0.140 ± 0.020 (p < 0.001)``; where several are lower, the best of them is named."""
    if winner.lead is None or winner.lead.difference is None:
        return ""
    margin = with_error(winner.lead.difference, winner.lead.stderr, digits)
    p_value = p_text(winner.lead)
    if len(winner.better_than) == 1:
        return f" by {margin} ({p_value})"
    return f", of which {escape(winner.next_best)} is closest, {margin} lower ({p_value})"


def leads(comparison: Comparison, escape: Escape) -> str:
    """``dense leads 12 of 20, 3 significantly; top_k leads 8 of 20.``, the most first."""
    leads = Counter(winner.config for winner in comparison.winners if not winner.ties)
    sure = Counter(winner.config for winner in comparison.winners if winner.is_sure)
    total = len(comparison.winners)
    parts = [
        f"{escape(config)} leads {count} of {total}"
        + (f", {sure[config]} significantly ahead of all others" if sure[config] else "")
        for config, count in leads.most_common(MAX_LISTED_NAMES)
    ]
    if len(leads) > MAX_LISTED_NAMES:
        parts.append(f"{len(leads) - MAX_LISTED_NAMES} more lead the rest")
    if ties := total - leads.total():
        parts.append(f"{ties} of {total} {'is a tie' if ties == 1 else 'are ties'}")
    return "; ".join(parts) + "."
