"""The words and numbers that all reports have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchfleet.domain.humanize import counted, duration
from benchfleet.domain.state import STATES

from .statistics import Difference
from .tables import Comparison, Entry, TimeSpent

HIGHER, LOWER, NOT_SURE, NOT_COMPARED = "▲", "▼", "≈", "?"
MARKS = (
    f"{HIGHER} significantly higher, {LOWER} significantly lower, {NOT_SURE} no significant "
    "difference (p < 0.05 after Holm's correction)"
)
UNMEASURED = "–"
UNKNOWN_ERROR = "± ?: only one value, or repeats with equal scores whose samples are not here."
MAX_LISTED_NAMES = 5  # names in a list before the rest is counted
_LEAST_P = 0.001  # smaller p-values are shown as below it
_STAGES = {"pull": "pulling", "load": "loading", "benchmark": "computing"}

Escape = Callable[[str], str]


def listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; of many, the first and how many more."""
    if len(names) > MAX_LISTED_NAMES:
        rest = len(names) - MAX_LISTED_NAMES + 1
        names = [*names[: MAX_LISTED_NAMES - 1], f"{rest} more"]
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


def decimals(comparison: Comparison, name: str) -> int:
    """Places after the point, of a benchmark or a suite: three for scores up to one, one for
    percentages."""
    return decimals_of(comparison.largest_mean.get(name, 0.0))


def decimals_of(largest: float) -> int:
    """Places after the point, where this is the largest mean."""
    return 3 if largest <= 1 else 2 if largest <= 10 else 1


def score(entry: Entry, decimals: int) -> str:
    """``0.995 ± 0.004``; where there is no result, the states that say why."""
    if entry.mean is None:
        return _states(entry)
    return with_error(entry.mean, entry.stderr, decimals)


def difference(entry: Entry, decimals: int) -> str:
    """``−0.845 ± 0.026 ▼``; empty where there is none to state."""
    return difference_text(entry.difference, decimals)


def difference_text(difference: Difference | None, decimals: int) -> str:
    """The same of any difference."""
    if difference is None or difference.difference is None:
        return ""
    if difference.p_value is None:
        mark = ""  # not tested
    elif difference.sure:
        mark = f" {HIGHER if difference.significantly_higher else LOWER}"
    else:
        mark = f" {NOT_SURE}"
    error = "?" if difference.stderr is None else f"{difference.stderr:.{decimals}f}"
    return f"{number(difference.difference, decimals, signed=True)} ± {error}{mark}"


def number(value: float, decimals: int, *, signed: bool = False) -> str:
    """``0.995``, ``−0.845``, ``+0.010``; what rounds to 0 has no sign."""
    text = f"{value:{'+' if signed else ''}.{decimals}f}"
    if not float(text):
        text = f"{0:.{decimals}f}"
    return text.replace("-", "−")


def interval(entry: Entry, decimals: int) -> str:
    """``−0.896 to −0.794``, where 95 % of such intervals hold the difference; or empty."""
    bounds = entry.difference and entry.difference.interval
    return " to ".join(number(end, decimals, signed=True) for end in bounds) if bounds else ""


def shortfall(entry: Entry) -> str:
    """``1 of 2: 1 failed`` where a shown score lacks some of the repeats, or empty."""
    if entry.mean is None or entry.repeats_done == entry.repeats_expected:
        return ""
    return f"{entry.repeats_done} of {entry.repeats_expected}: {_states(entry)}"


def density(entry: Entry) -> str:
    """``0.063``, or empty where none was measured."""
    return "" if entry.density is None else f"{entry.density:.3f}"


def speed(entry: Entry) -> str:
    """``412 tok/s``, or empty if it is unknown."""
    if not entry.tokens_per_second:
        return ""
    rate = entry.tokens_per_second
    return f"{rate:.0f} tok/s" if rate >= 10 else f"{rate:.1f} tok/s"


def counts(comparison: Comparison) -> str:
    """``30 cells: 28 success, 1 pending, 1 failed``."""
    parts = [f"{comparison.counts[state]} {state}" for state in STATES if comparison.counts[state]]
    total = comparison.counts["total"]
    return f"{counted(total, 'cell')}: {', '.join(parts)}" if parts else "no cells"


def p_text(difference: Difference) -> str:
    """``p = 0.03``, ``p < 0.001``; empty where nothing was tested."""
    p = difference.p_value if difference.adjusted_p is None else difference.adjusted_p
    if p is None:
        return ""
    return f"p = {p:.2g}" if p >= _LEAST_P else f"p < {_LEAST_P:g}"


def with_error(value: float, stderr: float | None, digits: int) -> str:
    """``0.995 ± 0.004``, or ``0.995 ± ?`` where the error is unknown."""
    error = "?" if stderr is None else f"{stderr:.{digits}f}"
    return f"{number(value, digits)} ± {error}"


def scores_legend(comparison: Comparison) -> str:
    """What a table of scores alone shows, as far as it occurs."""
    text = "Mean ± standard error over all samples of all repeats"
    if any(shortfall(entry) for entry in comparison.entries):
        text += "; 1 of 2: only so many repeats have a result"
    return f"{text}."


def legend(comparison: Comparison, escape: Escape) -> str:
    """What the lines of a cell and the marks mean, as far as they occur."""
    text = "Mean ± standard error of all repeats."
    if any(difference(entry, 0) for entry in comparison.entries):
        text += (
            f" Below: the difference to {escape(comparison.baseline)} on the same samples, {MARKS}."
        )
    if any(shortfall(entry) for entry in comparison.entries):
        text += " 1 of 2: that many repeats have a result so far."
    if any(
        score(entry, 3).endswith("?") or difference(entry, 3).endswith("?")
        for entry in comparison.entries
    ):
        text += f" {UNKNOWN_ERROR}"
    costs = []
    if any(entry.density is not None for entry in comparison.entries):
        costs.append("attention density (1 reads every key)")
    if any(entry.tokens_per_second for entry in comparison.entries):
        costs.append("speed")
    return f"{text} Last: {', '.join(costs)}." if costs else text


METHOD = (
    "The standard error is s/√n over the distinct samples of all repeats. Samples that share a "
    "context count as one cluster; others are treated as independent. "
    "A sample that several repeats share is one value, its mean. "
    "Differences are paired by sample (arXiv 2411.00640). "
    "Significant means p < 0.05 in a two-sided paired t-test with Holm's correction; scores of 0 "
    "and 1 take McNemar's exact test, with counts over the design effect of shared contexts. "
    "One correction covers all differences to the baseline, a "
    "second one all other pairs of a benchmark. Each keeps the family-wise error rate at 5 % or "
    "less. Detectable from d: a t-test finds a true difference of d in at least 80 % of "
    "repetitions, after correction. "
    "± 0 means that all samples have the same score, not that the score is exact. " + UNKNOWN_ERROR
)


SUITES = (
    "A suite has a score where all its parts have one. Its standard error is propagated from its "
    "benchmarks, whose samples are treated as independent. With scores of 0 and 1, the "
    "interval of a difference combines those of the benchmarks (MOVER), and p is where that "
    "interval ends at 0."
)


OVERVIEW = (
    "The mean is over the benchmarks with scores from 0 to 1 where all configs of a model have a "
    "result. Leads: benchmarks where the config has the highest mean, significant or not."
)


def by_stage(*spent: TimeSpent) -> dict[str, float]:
    """Seconds by stage, in the words of people: loading, computing."""
    total: dict[str, float] = {}
    for one in spent:
        for stage, value in one.seconds.items():
            name = _STAGES.get(stage, stage)
            total[name] = total.get(name, 0.0) + value
    return total


def time_spent(comparison: Comparison, escape: Escape) -> str:
    """``loading 12 s, computing 3 min 20 s; the longest was …``, or empty."""
    total = by_stage(*comparison.time)
    if not total:
        return ""
    parts = [f"{escape(name)} {duration(value)}" for name, value in total.items()]
    longest = max(comparison.time, key=_computing)
    name = f"{escape(longest.model)} × " if len(comparison.models) > 1 else ""
    text = f"{', '.join(parts)} (last attempts, summed over slots)"
    if len(comparison.time) > 1:
        text += (
            f"; {name}{escape(longest.config)} computed longest, {duration(_computing(longest))}"
        )
    return text + "."


def _computing(spent: TimeSpent) -> float:
    """Without loading: configs share a loaded model, and the first one to run loads it."""
    return sum(seconds for stage, seconds in spent.seconds.items() if stage != "load")


def _states(entry: Entry) -> str:
    """``failed`` where all repeats are, else ``1 failed, 1 pending`` without the successes."""
    states = [(state, entry.states[state]) for state in STATES if entry.states.get(state)]
    if len(states) == 1:
        return states[0][0]
    return ", ".join(f"{count} {state}" for state, count in states if state != "success")
