"""What every benchmark's samples have in common: a question, the right answers, an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_QUESTIONS = ("input", "question", "prompt", "query", "problem", "instruction")
_TARGETS = ("target", "answer", "answers", "label", "reference")


def question_of(sample: Mapping[str, Any]) -> str:
    """What was asked, with its context; all columns as JSON where none is a question."""
    columns = sample.get("columns") or {}
    name = next((name for name in _QUESTIONS if name in columns), None)
    if name is None:
        return as_text({k: v for k, v in columns.items() if k not in _TARGETS}) if columns else ""
    context = as_text(columns["context"]) + "\n\n" if columns.get("context") else ""
    return context + as_text(columns[name])


def targets_of(sample: Mapping[str, Any]) -> list[str]:
    """The right answers; empty where the benchmark records none."""
    columns = sample.get("columns") or {}
    name = next((name for name in _TARGETS if name in columns), None)
    if name is None:
        return []
    value = columns[name]
    return [*map(as_text, value)] if isinstance(value, list) else [as_text(value)]


def as_text(value: Any) -> str:
    """A text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def text_values(values: Mapping[str, Any]) -> dict[str, str]:
    """A mapping with texts only, without what is None."""
    return {name: as_text(value) for name, value in values.items() if value is not None}
