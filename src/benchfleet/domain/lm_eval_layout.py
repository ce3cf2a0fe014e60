"""What runs, exports and imports of lm-eval's tasks share: names, and the ids of documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .canonical import content_digest

# Fields of a sample in lm-eval's layout: its id here, and the answer where a model wrote none.
OWN_ID, OWN_ANSWER = "benchfleet_id", "benchfleet_answer"
# Of a score's summary: what is known of each metric, and how many documents lm-eval counted.
TASK_METRICS, DOCUMENTS = "lm_eval_metrics", "lm_eval_documents"
LIKELIHOODS = "loglikelihoods"  # the column that a run adds to a document


def id_of_document(number: int | str, columns: Mapping[str, Any]) -> str:
    """Its number, and a digest of its columns as JSON has them."""
    return f"{number}-{content_digest(columns)[:8]}"
