"""Lengths that are too short for a task of RULER with any tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.benchmarks.lm_eval.ruler import Ruler
from benchfleet.errors import CellFailure
from tiny_models import save_word_tokenizer

from .test_ruler import made

pytest.importorskip("wonderwords")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("task", "least"), [("vt", 754), ("cwe", 455)])
def test_a_length_that_suits_no_tokenizer_is_refused_before_anything_runs(
    task: str, least: int, tmp_path: Path
) -> None:
    for subset, lengths in ((task, [4096, least - 1]), (str(least - 1), [4096])):
        refused = Ruler({"folder": "/", "lengths": lengths}).check_subset(subset)
        assert refused is not None
        assert f"does not fit into {least - 1} tokens; ask for a length of" in refused
    assert Ruler({"folder": "/", "lengths": [least]}).check_subset(task) is None
    save_word_tokenizer(tmp_path)
    made(task, tmp_path, least)  # that has as many tokens as words
    with pytest.raises(CellFailure, match="cannot be built"):
        made(task, tmp_path, least - 1)
