"""LooGLE (arXiv 2311.04939): its prompts, and its automatic scores by the libraries that it uses.

BLEU and METEOR are NLTK's, ROUGE is that of the package ``rouge``. Its own code gives METEOR sets
of words, whose order changes with each process; here they keep the order of the text. Its own code
runs clozes as Python; here they are read as data.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

_NO_ANSWER = "None"  # its own code scores an empty answer as this word


def documents(dataset: Any) -> Any:
    """One row for each question. The hub has them so; its first form has a row for each text."""
    if "qa_pairs" not in dataset.column_names:
        return dataset.map(_with_text_answer)
    rows = [row for text in dataset for row in _questions(text)]
    return type(dataset).from_list(rows)


def similarity(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """How close an answer comes to the right one: recall of ROUGE, BLEU and METEOR, from 0 to 1."""
    from nltk.translate.bleu_score import sentence_bleu
    from nltk.translate.meteor_score import single_meteor_score

    reference, answer = str(doc["answer"]), results[0].strip() or _NO_ANSWER
    expected, words = reference.split(), answer.split()
    rouge = _rouge_recall(reference, answer)
    with warnings.catch_warnings():  # no n-gram in common: 0, as it says
        warnings.simplefilter("ignore")
        bleu = {
            f"bleu_{n}": float(
                sentence_bleu([expected], words, weights=[float(n == m) for m in orders])
            )
            for orders in [(1, 2, 3, 4)]
            for n in (1, 4)
        }
    meteor = single_meteor_score(list(dict.fromkeys(expected)), list(dict.fromkeys(words)))
    return {**rouge, **bleu, "meteor": float(meteor)}


def clozes(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, tuple[int, int]]:
    """How many masks are filled with the right name, and with a word of it; each with how many
    there are."""
    right, named = _masks(doc["answer"]), _masks(results[0])
    exact = sum(named.get(mask) == name for mask, name in right.items())
    partial = sum(
        bool(set(name.split()) & set(named.get(mask, "").split())) for mask, name in right.items()
    )
    return {"exact_match": (exact, len(right)), "partial_match": (partial, len(right))}


def share(counts: Sequence[tuple[int, int]]) -> float:
    """The share of all masks."""
    masks = sum(total for _, total in counts)
    return sum(filled for filled, _ in counts) / masks if masks else 0.0


def _rouge_recall(reference: str, answer: str) -> dict[str, float]:
    try:
        (scores,) = _rouge().get_scores(hyps=[answer], refs=[reference])
    except (ValueError, RecursionError):  # no word in it; a text without end
        scores = {}
    return {
        name: float(scores.get(key, {}).get("r", 0.0))
        for name, key in (("rouge_l", "rouge-l"), ("rouge_1", "rouge-1"), ("rouge_2", "rouge-2"))
    }


@cache
def _rouge() -> Any:
    from rouge import Rouge

    return Rouge()


def _masks(value: Any) -> dict[str, str]:
    """The names by mask in an answer, written as JSON or as Python; empty where it is neither."""
    if isinstance(value, str):
        for read in (json.loads, ast.literal_eval):
            try:
                value = read(value.strip())
                break
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
    if isinstance(value, (list, tuple)):
        value = {f"<mask-{number}>": name for number, name in enumerate(value)}
    if not isinstance(value, Mapping):
        return {}
    return {str(mask): name for mask, name in value.items() if isinstance(name, str)}


def _with_text_answer(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"answer": _as_text(row["answer"])}


def _as_text(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(_masks(answer), ensure_ascii=False)


def _questions(text: Mapping[str, Any]) -> list[dict[str, Any]]:
    pairs = text["qa_pairs"]
    pairs = ast.literal_eval(pairs) if isinstance(pairs, str) and pairs != "none" else pairs
    if pairs == "none":  # a summary
        pairs = [{"Q": "", "A": text["output"]}]
    return [
        {"context": text["input"], "question": pair["Q"], "answer": _as_text(pair["A"])}
        for pair in pairs
    ]
