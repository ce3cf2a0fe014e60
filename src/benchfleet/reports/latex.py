"""A comparison as LaTeX tables for a paper, with the rules of booktabs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchfleet.domain.plain_text import one_line

from . import wording
from .statistics import Difference
from .suites import SuiteScore
from .tables import Comparison, Entry

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}
_MARKS = {wording.HIGHER: r"$^{+}$", wording.LOWER: r"$^{-}$", wording.NOT_SURE: ""}
_SYMBOLS = str.maketrans({"−": "-", "±": r"\pm", "≈": "", "▲": "", "▼": ""})


def render(comparison: Comparison, *, title: str) -> str:
    """One table for each model; needs ``\\usepackage{booktabs}``."""
    tables = (_table(comparison, model, title) for model in comparison.models)
    return "% needs \\usepackage{booktabs}\n" + "\n".join(filter(None, tables))


def escaped(text: str) -> str:
    """Text of unknown origin as LaTeX that shows it."""
    return "".join(_SPECIAL.get(char, char) for char in one_line(text))


def _table(comparison: Comparison, model: str, title: str) -> str:
    entries = {(e.config, e.benchmark): e for e in comparison.entries if e.model == model}
    benchmarks = [n for n in comparison.benchmarks if any(b == n for _, b in entries)]
    configs = [n for n in comparison.configs if any(c == n for c, _ in entries)]
    scores = {(one.config, one.suite): one for one in comparison.suites if one.model == model}
    suites = [*dict.fromkeys(suite for _, suite in scores)]
    best = {
        (one.benchmark, config)
        for one in comparison.winners
        if one.model == model
        for config in (one.config, *one.tied_with)
    }
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(title)}: {escaped(model)}. {_caption(comparison)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(suites) + len(benchmarks))}}}",
        r"\toprule",
        _row(
            ["config", *(f"{escaped(name)} (suite)" for name in suites), *map(escaped, benchmarks)]
        ),
        r"\midrule",
    ]
    for config in configs:
        cells = [_suite_cell(config, name, scores, comparison) for name in suites]
        for benchmark in benchmarks:
            entry = entries.get((config, benchmark))
            digits = wording.decimals(comparison, benchmark)
            text = _cell(entry, digits) if entry else "--"
            is_best = (benchmark, config) in best and entry is not None and entry.mean is not None
            cells.append(_bold(text) if is_best else text)
        lines.append(_row([escaped(config), *cells]))
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join(lines)


def _caption(comparison: Comparison) -> str:
    return (
        r"Mean $\pm$ standard error; bold: highest mean; $^{+}$/$^{-}$: significantly above/below "
        rf"{escaped(comparison.baseline)} ($p<0.05$, paired, Holm-corrected)."
    )


def _cell(entry: Entry, digits: int) -> str:
    if entry.mean is None:
        return escaped(wording.score(entry, digits))
    text = re.sub(r"\s+", " ", wording.score(entry, digits).translate(_SYMBOLS))
    return f"${text}${_mark(entry.difference)}"


def _suite_cell(
    config: str, suite: str, scores: Mapping[tuple[str, str], SuiteScore], comparison: Comparison
) -> str:
    """One cell of a suite's column; `scores` are of one model, by config and suite."""
    score = scores.get((config, suite))
    if score is None or score.mean is None:
        return escaped(score.remark) if score else "--"
    digits = wording.decimals(comparison, suite)
    number = wording.with_error(score.mean, score.stderr, digits).translate(_SYMBOLS)
    text = f"${number}${_mark(score.difference)}"
    column = (one.mean for one in scores.values() if one.suite == suite and one.mean is not None)
    return _bold(text) if score.mean == max(column) else text


def _bold(formula: str) -> str:
    return rf"{{\boldmath{formula}}}"  # \textbf leaves formulas as they are


def _mark(difference: Difference | None) -> str:
    if difference is None or not difference.sure:
        return ""
    return _MARKS[wording.HIGHER if difference.significantly_higher else wording.LOWER]


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
