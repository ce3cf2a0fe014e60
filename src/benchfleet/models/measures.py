"""What an answer's measures say of the attention."""

from __future__ import annotations

from typing import Any

from benchfleet.errors import CellFailure
from benchfleet.models.attention.forward import SparseAttention
from benchfleet.models.decoding import Continuation


def attention_measures(
    model: Any, attention: SparseAttention, continuation: Continuation
) -> dict[str, float]:
    """Density, and the error of the attention's output where it is measured.

    Raises CellFailure where the model never called the attention config.
    """
    measures = {"density": 1.0}
    if attention.steps:
        if continuation.density is None or continuation.attention_error is None:
            message = f"{type(model).__name__} never called the attention config; leave it out here"
            raise CellFailure(stage="benchmark", kind="user_error", message=message)
        measures["density"] = continuation.density
        if not attention.fast:
            measures["attention_error"] = continuation.attention_error
    return measures
