"""The requests of an lm-eval task, shown document by document in place of being asked.

An lm-eval model makes its tokens as always, and is stopped where it would ask.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from benchfleet.models.base import PromptView

Show = Callable[[PromptView], None]  # ends the run itself once it has seen enough
_METHODS = ("generate_until", "loglikelihood", "loglikelihood_rolling")


class _Reached(BaseException):
    """A request has come to where it would be asked."""


class _NoAnswers:
    """Replaces `Answers`: nothing was asked before, and nothing is recorded."""

    def recorded_answers(self, requests: Sequence[Any]) -> list[Any]:
        return [None] * len(requests)

    def add_partial(self, attr: str, req: Sequence[Any], res: Any) -> None:
        """Keeps nothing."""


def show_requests(lm: Any, show: Show) -> None:
    """Let `lm`, of this package's classes but `PromptedLM`, show each request. Of a likelihood all
    tokens are shown, though a model only predicts the last one."""
    lm._device = "cpu"  # whose tensors have values, unlike those of an empty model
    lm.set_cache_hook(_NoAnswers())
    own = {name: getattr(lm, name) for name in _METHODS}
    for name, method in own.items():
        setattr(lm, name, partial(_each, lm, method, show))


def _each(lm: Any, method: Any, show: Show, requests: Sequence[Any], **_: Any) -> Any:
    for request in sorted(requests, key=lambda one: (one.doc_id, one.idx)):
        views: list[PromptView] = []
        if request.request_type == "generate_until" and lm._served:
            views.append(_payload(lm, request))
        else:
            lm._loglikelihood_tokens = partial(_likelihoods, lm, views)
            lm._model_generate = partial(_generation, lm, views)
            with contextlib.suppress(_Reached):
                method([request], disable_tqdm=True)
        for view in views:
            show(_described(lm, request, view))
    return [None] * len(requests)


def _described(lm: Any, request: Any, view: PromptView) -> PromptView:
    """With the text and the settings, as lm-eval has them."""
    sample, arguments = str(request.doc_id), request.args
    if request.request_type == "generate_until":
        settings = dict(arguments[1])
        if view.request:
            return replace(view, sample=sample, generation=settings)
        text = str(arguments[0])
        cut = len(lm.tok_encode(text)) > len(view.tokens or ())
        return replace(view, sample=sample, text=text, generation=settings, truncated=cut)
    if request.request_type == "loglikelihood":
        text, continuation = "".join(arguments), str(arguments[1])
        return replace(view, sample=sample, text=text, continuation=continuation)
    text = str(arguments[0])
    return replace(view, sample=sample, text=text, continuation=text)


def _generation(lm: Any, views: list[PromptView], *, context: Any, **_: Any) -> Any:
    views.append(_view(lm, [int(token) for token in context[0].tolist()]))
    raise _Reached


def _likelihoods(lm: Any, views: list[PromptView], requests: Sequence[Any], **_: Any) -> Any:
    most = lm.max_length + (0 if lm._served else 1)
    for _texts, context, continuation in requests:
        whole = [*context, *continuation]
        views.append(replace(_view(lm, whole[-most:]), truncated=len(whole) > most))
    return [(0.0, False)] * len(requests)


def _view(lm: Any, tokens: Sequence[int]) -> PromptView:
    pieces = tuple(map(str, lm.tokenizer.convert_ids_to_tokens(list(tokens))))
    return PromptView(tokens=tuple(tokens), pieces=pieces)


def _payload(lm: Any, request: Any) -> PromptView:
    """The body of the request to a server."""
    text, settings = request.args
    body = lm._create_payload(
        lm.create_message([text]), generate=True, gen_kwargs=copy.deepcopy(settings), seed=lm._seed
    )
    view: PromptView = lm._served.view(body)
    return view
