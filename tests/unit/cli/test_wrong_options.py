"""Options of any verb that are refused, such as an empty one from `"$UNSET"` in a script."""

from __future__ import annotations

import pytest

from benchfleet.cli.main import main


@pytest.mark.parametrize(
    "words",
    [
        ["work", "study.yaml", "--ledger", ""],
        ["work", "study.yaml", "--ledger="],
        ["run", "study.yaml", "--ledger", " "],
        ["status", "study.yaml", "--ledger", ""],
        ["run", "study.yaml", "--results", ""],
        ["run", "study.yaml", "--machines", ""],
        ["run", "study.yaml", "--hosts", ""],
        ["work", "study.yaml", "--assigned", ""],
        ["work", "--campaign", "", "--ledger", "ledger.db"],
        ["work", "study.yaml", "--models", ""],
        ["ledger", "copy", "study.yaml", "--to", ""],
        ["compare", "a.yaml", "b.yaml", "--ledger", ""],
        ["retry", "study.yaml", "--only", ""],
    ],
    ids=" ".join,
)
def test_an_empty_option_is_wrong_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    option = next(word.rstrip("=") for word in words if word.startswith("--"))
    assert f"{option} is empty; give it a value, or leave the option out" in capsys.readouterr().err


def test_assigned_needs_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["work", "nowhere.yaml", "--assigned"]) == 2
    assert "file not found" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["s3://bucket/p", "file:relstore"])
def test_results_on_the_command_line_are_a_folder(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "study.yaml", "--results", text])
    assert ended.value.code == 2
    assert f"{text!r} is no folder; write a store as `results:`" in capsys.readouterr().err
