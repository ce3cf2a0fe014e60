"""Why a load point fails if its requests, or all of its steady window, were not answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from benchfleet.domain.humanize import counted
from benchfleet.errors import CellFailure
from benchfleet.models.base import LoadTarget
from benchfleet.serving.request import Request

HTTP_ERROR = "http_"  # how the error of a request begins that was answered with a status
_RETRYABLE: Mapping[str, str] = {  # kinds of failures, by the error of a request
    "timeout": "timeout",
    "connect": "server_unavailable",
    "reset": "server_unavailable",
    "cut_body": "server_unavailable",
    "error_in_stream": "server_unavailable",
}


def unanswered(requests: Sequence[Request], target: LoadTarget) -> CellFailure:
    """The failure of the most frequent error, with the first message of it."""
    errors = Counter(one.error for one in requests if one.error)
    if not errors:
        message = "no request was sent; set a longer duration, or a higher rate"
        return CellFailure(stage="benchmark", kind="user_error", message=message)
    most_frequent, _ = errors.most_common(1)[0]
    first = next(one for one in requests if one.error == most_frequent)
    failure = _failure(first, target)
    counts = ", ".join(f"{count} {error}" for error, count in errors.most_common())
    message = (
        f"{errors.total()} of {counted(len(requests), 'request')} failed ({counts}), and "
        f"none of the steady window was answered; the first: {failure}"
    )
    return failure.with_message(message, stage="benchmark")


def refused(requests: Sequence[Request], target: LoadTarget) -> CellFailure:
    """The failure of a point whose last requests all had the same error."""
    failure = _failure(requests[0], target)
    message = (
        f"the last {counted(len(requests), 'request')} failed ({requests[0].error}), so no more "
        f"was sent; the first: {failure}"
    )
    return failure.with_message(message, stage="benchmark")


def _failure(request: Request, target: LoadTarget) -> CellFailure:
    """The failure of a cell that asks this one request."""
    if request.error.startswith(HTTP_ERROR):
        return target.refused(request.status, request.message)
    kind = _RETRYABLE.get(request.error)
    advice = "" if kind else "; is it a server of this protocol?"
    return CellFailure(
        stage="benchmark",
        kind=kind or "bad_request",
        message=f"{target.url}: {request.message or request.error}{advice}",
        retryable=kind is not None,
    )
