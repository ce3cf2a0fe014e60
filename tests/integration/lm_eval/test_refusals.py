"""Tasks of lm-eval that cannot be: each says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchfleet.errors import CellFailure

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"generation": {"beams": 2}}, "user_error", "no generation setting 'beams'"),
        ({"params": {"apply_chat_template": True}}, "user_error", "has no chat template"),
        ({"params": {"metric": "f1"}}, "user_error", "has no metric 'f1'; there are acc"),
    ],
)
def test_what_cannot_be_is_a_failure_with_what_to_do(
    evaluated: Any, given: dict[str, Any], kind: str, message: str
) -> None:
    with pytest.raises(CellFailure, match=message) as raised:
        evaluated("recall_choice", limit=1, **given)
    assert (raised.value.stage, raised.value.kind) == ("benchmark", kind)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``HF_HUB_OFFLINE=1`` has it, which is read once alone."""
    import datasets
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def test_a_task_of_lm_evals_own_without_its_data_says_what_to_do(
    evaluated: Any, offline: None
) -> None:
    with pytest.raises(CellFailure, match=r"the data set (openai/)?gsm8k (.* )?is not") as raised:
        evaluated("gsm8k")
    assert (raised.value.stage, raised.value.kind) == ("benchmark", "dataset_missing")


@pytest.mark.parametrize(
    ("output", "kind", "message"),
    [
        ("dataset_path: nobody/rows-gone", "dataset_missing", "where there is a network"),
        ("dataset_path: json\ndoc_to_text: !function gone_module.f", "missing_extra", "gone_mod"),
        ("dataset_path: json\noutput_type: sing", "user_error", "broken cannot be built"),
        (
            "include: recall_choice.yaml\ntask: broken\ntest_split: tset",
            "user_error",
            "its data or settings have no 'tset'; correct the split or column",
        ),
    ],
)
def test_a_task_that_cannot_be_built_says_why(
    evaluated: Any, tasks: Path, offline: None, output: str, kind: str, message: str
) -> None:
    (tasks / "broken.yaml").write_text(f"task: broken\ntest_split: test\n{output}\n")
    with pytest.raises(CellFailure, match=message) as raised:
        evaluated("broken")
    assert (raised.value.stage, raised.value.kind) == ("benchmark", kind)
