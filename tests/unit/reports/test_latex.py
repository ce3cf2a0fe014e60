"""LaTeX tables show any name and mean nothing else."""

from __future__ import annotations

import re

from benchfleet.reports import latex

from .conftest import Study


def test_scores_marks_and_the_best_are_in_the_table(demo: Study) -> None:
    text = latex.render(demo.compared(), title="a_b")
    assert r"a\_b: tiny-recall" in text
    assert r"{\boldmath$1.000 \pm 0.000$}" in text
    assert r"$0.150 \pm 0.025$$^{-}$" in text
    assert r"window\_32" in text
    assert text.count(r"\begin{table}") == 1


def test_all_configs_with_the_highest_mean_are_bold(study: Study) -> None:
    study.done("dense", [1, 0, 1, 0])
    study.done("same", [0, 1, 0, 1])
    study.done("lower", [0, 0, 0, 1])
    text = latex.render(study.compared(), title="t")
    assert r"dense & {\boldmath$0.500 \pm 0.289$}" in text
    assert r"same & {\boldmath$0.500 \pm 0.289$}" in text
    assert r"lower & $0.250 \pm 0.250$" in text


def test_what_has_no_result_says_so(study: Study) -> None:
    study.done("dense", [1, 0], subset="128")
    study.cell("window", subset="128")
    study.done("dense", [1, 0], subset="512")
    rows = [line for line in latex.render(study.compared(), title="t").splitlines() if "&" in line]
    assert rows[2] == r"window & pending & -- \\"


def test_hostile_names_are_shown_and_mean_nothing(study: Study) -> None:
    study.done("\\input{/etc/passwd}%&$#_^~", [1, 0])
    text = latex.render(study.compared(), title="}\\end{table}")
    assert (
        r"\textbackslash{}input\{/etc/passwd\}\%\&\$\#\_\textasciicircum{}\textasciitilde{}" in text
    )
    assert not re.search(r"(?<!textbackslash\{\})\\input", text)
    assert text.count(r"\end{table}") == 1
