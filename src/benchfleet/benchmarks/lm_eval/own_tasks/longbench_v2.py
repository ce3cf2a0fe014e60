"""LongBench v2 (arXiv 2412.15204) answered in words: prompts and scores as in its own code.

A chain of thought is one answer here; its own code asks again for the letter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_ANSWERS = (r"The correct answer is \(([A-D])\)", r"The correct answer is ([A-D])")
_FORMAT = 'Format your response as follows: "The correct answer is (insert answer here)".'


def text(doc: Mapping[str, Any]) -> str:
    """The prompt of a document."""
    choices = "\n".join(f"({letter}) {str(doc[f'choice_{letter}']).strip()}" for letter in "ABCD")
    return (
        "Please read the following text and answer the question below.\n\n"
        f"<text>\n{str(doc['context']).strip()}\n</text>\n\n"
        f"What is the correct answer to this question: {str(doc['question']).strip()}\n"
        f"Choices:\n{choices}\n\n{_FORMAT}"
    )


def text_step_by_step(doc: Mapping[str, Any]) -> str:
    """The prompt that asks for a chain of thought."""
    return f"{text(doc)}\n\nLet’s think step by step:"


def score(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """1 if the answer names the right letter in the words that the prompt asks for."""
    answer = results[0].replace("*", "")
    matches = (re.search(pattern, answer) for pattern in _ANSWERS)
    letter = next((match[1] for match in matches if match), "")
    return {"acc": float(letter == doc["answer"])}
