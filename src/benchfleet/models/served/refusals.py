"""What a server's refusal means: an HTTP status and a body to a named failure."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from benchfleet.domain.failure import Kind
from benchfleet.domain.sample_end import ABORTED
from benchfleet.errors import CellFailure

RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
MAX_BODY_CHARACTERS = 300  # of a server's message
_KINDS: Mapping[int, Kind] = {401: "wrong_key", 403: "wrong_key", 404: "model_not_found"}
_NO_QUOTA = "insufficient_quota"
_OF_ONE_REQUEST = frozenset({400, 413, 414, 422, 451})  # statuses that speak of its content
_ABSENCE_WORDS = (
    "no chat template",
    "not set",
    "must provide",
    "does not define",
    "no default",
    "missing",
)
_MAX_TOKEN_CHARACTERS = 5  # that may be half there: of false, or of an escape
_FILTERS = ("content_filter", "content_policy", "content management policy", "responsibleai")


class RefusedRequest(CellFailure):
    """A server answered a request with this HTTP status."""

    def __init__(
        self, status: int, *, kind: Kind, message: str, retryable: bool, filtered: bool = False
    ) -> None:
        self.status = status
        self.filtered = filtered
        super().__init__(stage="benchmark", kind=kind, message=message, retryable=retryable)


def refusal(status: int, body: str, *, where: str) -> RefusedRequest:
    """The failure of a request that the server at `where` refused."""
    message, spent = _message(body), is_quota_spent(body)
    again = status in RETRIED_STATUSES and not spent and not lacks_template(body)
    kind = _KINDS.get(status, "bad_request")
    if status == 429 or spent:
        kind = "rate_limited"
    elif again:
        kind = "server_unavailable"
    detail = f"{where} answered HTTP {status}" + (f": {message}" if message else "")
    if spent:
        detail += "; the quota of the account is spent"
    filtered = any(word in body.lower() for word in _FILTERS)
    return RefusedRequest(status, kind=kind, message=detail, retryable=again, filtered=filtered)


def aborted_answer(reply: Any, *, where: str) -> RefusedRequest | None:
    """The failure of a request whose answer the server gave up, with HTTP 200; None for others."""
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    if (finish := str(choices[0].get("finish_reason") or "").lower()) not in ABORTED:
        return None
    message = f"{where} gave an answer up: its finish_reason is {finish!r}"
    return RefusedRequest(200, kind="server_unavailable", message=message, retryable=True)


def is_cut_off(reply: str) -> bool:
    """Whether a reply is JSON whose end is missing: a proxy may end it where its server broke."""
    text = reply.strip()
    if not text.startswith("{"):
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Extra data"):
            return False
        at_end = len(text) - error.pos <= _MAX_TOKEN_CHARACTERS
        return at_end or error.msg.startswith("Unterminated string")
    except (ValueError, RecursionError):  # such as a number of too many digits
        return False
    return False


def unreadable_reply(reply: Any, problem: str, *, where: str) -> CellFailure:
    """The failure of a request that was answered with HTTP 200 and a reply of another form."""
    text = reply if isinstance(reply, str) else json.dumps(reply)
    beginning = " ".join(text.split())[:MAX_BODY_CHARACTERS] or "nothing"
    message = (
        f"the reply of {where} cannot be read: {problem}; is it a server of this protocol? "
        f"The reply begins with {beginning}"
    )
    return CellFailure(stage="benchmark", kind="bad_request", message=message)


def lacks_template(text: str) -> bool:
    """Whether a server says that its model has no chat template, in any of their words."""
    lower = text.lower().replace("_", " ")
    return "chat template" in lower and any(word in lower for word in _ABSENCE_WORDS)


def is_of_one_request(failure: CellFailure) -> bool:
    """Whether another request to the same server may succeed, and this one never."""
    if not isinstance(failure, RefusedRequest) or failure.is_retryable:
        return False
    return failure.status in _OF_ONE_REQUEST


def is_quota_spent(body: str) -> bool:
    """Whether no later request will be answered either."""
    return _NO_QUOTA in body


def retry_after_s(header: str | None) -> float | None:
    """The seconds that a Retry-After header asks for; None without a valid one."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _message(body: str) -> str:
    """The message of an error, in any of the forms that servers use."""
    try:
        value: Any = json.loads(body)
    except ValueError:
        value = body
    if isinstance(value, dict):
        value = value.get("error") or value.get("detail") or value.get("message") or body
    if isinstance(value, dict):
        value = value.get("message") or json.dumps(value)
    text = value if isinstance(value, str) else json.dumps(value)
    return " ".join(text.split())[:MAX_BODY_CHARACTERS]
