"""``benchfleet --help``: verbs in groups, the first ones named."""

from __future__ import annotations

import re

import pytest

from benchfleet.cli.main import VERB_GROUPS, VERBS, main, parser_of


@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_help_lists_each_verb_once_below_the_heading_of_its_group(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = parser_of(["--help"]).format_help()
    headings = re.findall(r"^(\w+):", text, re.MULTILINE)
    assert [heading for heading in headings if heading in VERB_GROUPS] == list(VERB_GROUPS)
    assert sorted(re.findall(r"^  ([a-z][a-z-]+)  +", text, re.MULTILINE)) == sorted(VERBS)
    assert "start with: init, plan, run, status, report" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_verb_names_itself_in_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    assert capsys.readouterr().out.startswith("usage: benchfleet plan [-h]")
