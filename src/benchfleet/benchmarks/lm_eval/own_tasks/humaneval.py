"""HumanEval (arXiv 2107.03374): lm-eval's prompts; the answers run in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchfleet.benchmarks.lm_eval.sandbox import runs_to_its_end


def score(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """1 if the prompt with the answer passes the tests of the document."""
    test = f"{doc['test']}\ncheck({doc['entry_point']})"
    return {"pass@1": float(runs_to_its_end(f"{doc['prompt']}{results[0]}\n{test}\n"))}
