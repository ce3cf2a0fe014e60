"""What a document of lm-eval offers as choices, and what would have been right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .plain_values import plain


def choices_of(task: Any, doc: Any, requests: Sequence[Any]) -> list[str]:
    """The choices of a multiple-choice document, in their order; none of any other."""
    if requests[0].request_type != "loglikelihood" or len(requests) < 2:
        return []
    if getattr(task.config, "doc_to_choice", None) is not None:
        return [str(choice) for choice in task.doc_to_choice(doc)]
    return [str(request.args[-1]).strip() for request in requests]


def target_of(task: Any, doc: Any, choices: Sequence[str]) -> Any:
    """What would have been right: the text of a choice rather than its number."""
    inputs = bool(choices) and bool(getattr(task, "multiple_input", 0))  # they are the questions
    target = plain(task.doc_to_text(doc) if inputs else task.doc_to_target(doc))

    def text(one: Any) -> Any:
        if isinstance(one, bool) or not isinstance(one, int):
            return one
        return choices[one] if 0 <= one < len(choices) else one

    return [text(one) for one in target] if isinstance(target, list) else text(target)
