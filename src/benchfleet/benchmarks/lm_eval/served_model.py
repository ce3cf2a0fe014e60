"""lm-eval's API models over the slot's own client: the requests are lm-eval's, and retries,
concurrency and the key are the client's. What an earlier attempt recorded is not sent again.

Imports lm-eval, and so torch: for slots alone.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from typing import Any

from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI

from benchfleet.benchmarks.base import Session
from benchfleet.errors import CellFailure
from benchfleet.models.base import ServedModel

_NO_BOS = (
    "likelihoods are asked without the BOS token that the tokenizer adds, as by lm-eval's API "
    "models; add_bos_token: true adds it, as the adapter transformers does"
)


class _Served:
    """What both API models do here otherwise than in lm-eval."""

    cache_hook: Any
    _create_payload: Any
    create_message: Any
    parse_generations: Any
    parse_logprobs: Any
    _seed: int
    _served: ServedModel
    _session: Session
    _last: tuple[str, str] = ("", "")  # of the last answer: why it ended, or why there is none

    async def get_batched_requests(
        self,
        requests: Sequence[Any],
        cache_keys: Sequence[Any],
        *,
        generate: bool = True,
        ctxlens: Sequence[int] | None = None,
        gen_kwargs: Any = None,
        **_: Any,
    ) -> list[list[Any]]:
        """One answer for each request. Each is recorded once its group has ended, also where
        another of the group failed."""
        answers: list[list[Any]] = []
        size = self._served.requests_at_once
        for start in range(0, len(requests), size):
            some = slice(start, start + size)
            bodies = [
                self._create_payload(
                    self.create_message([message]),
                    generate=generate,
                    gen_kwargs=copy.deepcopy(gen_kwargs),
                    seed=self._seed,
                )
                for message in requests[some]
            ]
            outputs: dict[int, Any] = {}
            failure: CellFailure | None = None
            try:
                with self._session.asking(len(bodies)):
                    await asyncio.to_thread(lambda: outputs.update(self._served.ask(bodies)))  # noqa: B023 - awaited here
            except CellFailure as error:
                failure = error
            for number, output in ((start + at, outputs[at]) for at in sorted(outputs)):
                self._last = ("", "")
                if isinstance(output, CellFailure):
                    if not generate:
                        raise output  # a likelihood cannot be wrong
                    ended = "refused" if output.filtered else "error"
                    self._last, answer = (ended, str(output)), ""
                elif generate:
                    self._last = (_finish_of(output), "")
                    (answer,) = self.parse_generations(outputs=output)
                    answer = "" if answer is None else answer
                else:
                    answer = self._likelihood(output, (ctxlens or ())[number])
                answers.append([answer])
                if cache_keys[number] is not None:
                    method = "generate_until" if generate else "loglikelihood"
                    try:
                        self.cache_hook.add_partial(method, cache_keys[number], answer)
                    except CellFailure as error:  # such as too many failed samples
                        failure = failure or error
            if failure:
                raise failure
        return answers

    def details(self) -> dict[str, str]:
        """Why the last answer ended, or why there is none."""
        return {"finish": self._last[0], "error": self._last[1]}

    def _likelihood(self, output: Any, context_tokens: int) -> Any:
        try:
            (answer,) = self.parse_logprobs(outputs=output, ctxlens=[context_tokens])
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise CellFailure(
                stage="benchmark",
                kind="user_error",
                message=f"the server of {self._session.model.name} gives no log-probabilities of "
                "prompts (echo with logprobs), which this task needs; leave the pair out",
            ) from error
        return answer

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
        return self._completed(requests, super().loglikelihood)  # type: ignore[misc]

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> Any:
        return self._completed(requests, super().loglikelihood_rolling)  # type: ignore[misc]

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> Any:
        return self._completed(requests, super().generate_until)  # type: ignore[misc]

    def _completed(self, requests: Sequence[Any], ask: Callable[..., Any]) -> list[Any]:
        recorded = self.cache_hook.recorded_answers(requests)
        pairs = zip(requests, recorded, strict=True)
        pending = [request for request, answer in pairs if answer is None]
        fresh = iter(ask(pending, disable_tqdm=True) if pending else ())
        return [next(fresh) if answer is None else answer for answer in recorded]


def _finish_of(output: Any) -> str:
    try:
        return str(output["choices"][0].get("finish_reason") or "")
    except (KeyError, IndexError, TypeError, AttributeError):
        return ""


def _adds_bos(tokenizer: Any) -> bool:
    """Whether the tokenizer begins each text with a BOS token by itself."""
    bos = getattr(tokenizer, "bos_token_id", None)
    return bos is not None and tokenizer("a").input_ids[:1] == [bos]


class ServedCompletions(_Served, LocalCompletionsAPI):  # type: ignore[misc]
    """The prompt as it is."""


class ServedChat(_Served, LocalChatCompletion):  # type: ignore[misc]
    """The prompt as messages."""


def served_lm(
    session: Session,
    served: ServedModel,
    *,
    generates: bool,
    max_length: int | None,
    add_bos: bool | None,
) -> Any:
    """The API model for a task that generates, or that compares likelihoods.

    Likelihoods are of token ids, so they need the tokenizer. Raises CellFailure without one.
    lm-eval's API models add no BOS token unless `add_bos` says so.
    """
    if not generates and (served.api == "chat" or not served.tokenizer):
        need = "api: completions" if served.api == "chat" else "a tokenizer in its model_kwargs"
        raise CellFailure(
            stage="benchmark",
            kind="user_error",
            message=f"this task compares likelihoods; give the model {session.model.name} {need}",
        )
    if not generates and not served.abilities.get("prompt_logprobs"):
        raise CellFailure(
            stage="benchmark",
            kind="user_error",
            message=f"the server of {session.model.name} gives no log-probabilities of prompts "
            "(echo with logprobs), which this task needs; exclude the pair",
        )
    kind = ServedChat if served.api == "chat" else ServedCompletions
    lm = kind(
        model=served.name,
        base_url=served.url,
        tokenizer=None if generates else served.tokenizer,
        tokenizer_backend=None if generates else "huggingface",
        tokenized_requests=not generates,
        num_concurrent=max(2, served.requests_at_once),  # the path of lm-eval that asks groups
        max_length=max_length or 2048,
        add_bos_token=bool(add_bos),
    )
    if not generates and add_bos is None and _adds_bos(lm.tokenizer):
        session.notice(_NO_BOS)
    lm._served, lm._session = served, session
    return lm
