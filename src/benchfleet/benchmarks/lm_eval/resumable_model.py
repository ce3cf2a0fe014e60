"""lm-eval's model class, which is asked only for what no earlier attempt recorded.

A batch is left out where all of it is known, and asked whole otherwise: the numbers of a text
depend on its neighbours in the batch, so that the batches have to be those of a run that nothing
interrupted. How lm-eval makes them is repeated here; where another version of it makes others,
the last digits of a log-likelihood may differ, and nothing else.

Imports lm-eval, and so torch: for slots alone.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.utils import get_rolling_token_windows

from benchfleet.benchmarks.base import Session

_MAX_SPECIAL_TOKENS = 8  # that a tokenizer adds to a text
_Batches = Sequence[Sequence[int]]  # places among the requests, in the order of asking


class ResumedLM(HFLM):  # type: ignore[misc]
    """A loaded model whose cache hook is `Answers`, which knows what was answered before."""

    _served = None  # it asks no server

    def __init__(self, *, session: Session, **settings: Any) -> None:
        super().__init__(**settings)
        self._session = session
        self._recorded: Sequence[Any] = ()  # of the log-likelihoods that are being asked
        self._finishes: deque[str] = deque()  # of the last batch's answers, which come in its order

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
        self._recorded = self.cache_hook.recorded_answers(requests)
        return super().loglikelihood(requests, disable_tqdm=disable_tqdm)

    def _loglikelihood_tokens(self, requests: Any, *args: Any, **kwargs: Any) -> Any:
        recorded, self._recorded = self._recorded, ()
        ask = super()._loglikelihood_tokens
        if all(answer is None for answer in recorded):  # as for the windows of a rolling one
            return ask(requests, *args, **kwargs)
        pending = _unknown(_of_likelihoods(requests, self.batch_size), recorded)
        return _completed(requests, recorded, pending, lambda some: ask(some, *args, **kwargs))

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> Any:
        """In pieces that end where a batch ends: lm-eval itself returns no answer before it
        has them all."""
        recorded = self.cache_hook.recorded_answers(requests)
        windows = [self._windows(request.args[0]) for request in requests]
        ask = super().loglikelihood_rolling
        answers: list[Any] = []
        for piece in _pieces(windows, self.batch_size):
            earlier = [recorded[index] for index in piece]
            if any(answer is None for answer in earlier):
                piece_requests = [requests[index] for index in piece]
                _fill(earlier, range(len(piece)), ask(piece_requests, disable_tqdm=disable_tqdm))
            answers += earlier
        return answers

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> Any:
        recorded = self.cache_hook.recorded_answers(requests)
        ask = super().generate_until
        if all(answer is None for answer in recorded):
            return ask(requests, disable_tqdm=disable_tqdm)
        batches = _of_generations(requests, self.batch_size, self.tok_encode)
        drawn = any(map(_is_drawn, requests))
        pending = (
            self._to_draw(requests, recorded, batches) if drawn else _unknown(batches, recorded)
        )
        return _completed(requests, recorded, pending, lambda some: ask(some, disable_tqdm))

    def _to_draw(self, requests: Any, recorded: Sequence[Any], batches: _Batches) -> _Batches:
        """The batches from the first that is not known on, with the random numbers as they were
        then: each answer that is drawn depends on all before it."""
        order = [index for batch in batches for index in batch]
        last = {requests[index].doc_id: index for index in order}  # its document is recorded then
        cut, state = 0, ""
        for number, batch in enumerate(batches, start=1):
            if any(recorded[index] is None for index in batch):
                break
            for index in batch:
                random_state = self.cache_hook.random_state_after(requests[index].doc_id)
                if last[requests[index].doc_id] == index and random_state:
                    cut, state = number, random_state
        if state:
            self._set_random_state(state)
        return batches[cut:]

    def _model_call(self, inps: Any, *args: Any, **kwargs: Any) -> Any:
        self.cache_hook.keep_unfinished()
        with self._session.asking(len(inps)):
            logits = super()._model_call(inps, *args, **kwargs)
            logits[-1, -1, -1].item()  # a GPU returns before it has computed
        return logits

    def _model_generate(self, context: Any, *args: Any, **kwargs: Any) -> Any:
        self.cache_hook.keep_unfinished()
        with self._session.asking(len(context)):
            generated = super()._model_generate(context, *args, **kwargs)
        rows = generated[:, context.shape[1] :].tolist()
        limit, stops = kwargs["max_length"] - context.shape[1], kwargs.get("stop") or ()
        self._finishes = deque(self._why_ended(row, limit, stops) for row in rows)
        drawn = kwargs.get("do_sample") or kwargs.get("temperature")
        self.cache_hook.random_state = self._random_state() if drawn else ""
        return generated

    def is_cut(self, request: Any) -> bool:
        """Whether the beginning of a request is cut off, which is longer than the model takes."""
        text, *others = request.args
        if request.request_type == "generate_until":
            settings = normalize_gen_kwargs(others[0], self.max_gen_toks)
            return self._has_more_tokens(text, self.max_length - settings["max_gen_toks"])
        if request.request_type == "loglikelihood":  # a rolling one is read in pieces
            return self._has_more_tokens("".join(request.args), self.max_length + 1)
        return False

    def _has_more_tokens(self, text: str, limit: int) -> bool:
        if len(text.encode("utf-8", "replace")) + _MAX_SPECIAL_TOKENS <= limit:
            return False  # a token is a byte or more
        return len(self.tok_encode(text)) > limit

    def details(self) -> dict[str, str]:
        """Why the next answer of the last batch ended, if it was generated."""
        return {"finish": self._finishes.popleft()} if self._finishes else {}

    def _why_ended(self, row: Sequence[int], limit: int, stops: Sequence[str]) -> str:
        if len(row) < limit or {self.eot_token_id, self.tokenizer.pad_token_id} & {*row}:
            return "stop"
        text = self.tok_decode(list(row), skip_special_tokens=False)
        return "stop" if any(stop in text for stop in stops) else "length"

    def _windows(self, text: str) -> int:
        """How many pieces a text is cut into that is longer than the model takes."""
        return sum(
            1
            for _ in get_rolling_token_windows(
                token_list=self.tok_encode(text),
                prefix_token=self.prefix_token_id,
                max_seq_len=self.max_length,
                context_len=1,
            )
        )

    def _random_state(self) -> str:
        """The state of the random numbers that answers are drawn by: 16 bytes of a GPU, 5 kB of
        a CPU."""
        gpu = self.device.type == "cuda"
        state = torch.cuda.get_rng_state(self.device) if gpu else torch.get_rng_state()
        return base64.b64encode(bytes(state.tolist())).decode()

    def _set_random_state(self, random_state: str) -> None:
        state = torch.tensor(list(base64.b64decode(random_state)), dtype=torch.uint8)
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state, self.device)
        else:
            torch.set_rng_state(state)


def _unknown(batches: _Batches, recorded: Sequence[Any]) -> _Batches:
    """The batches of which not all is known."""
    return [batch for batch in batches if any(recorded[index] is None for index in batch)]


def _completed(
    requests: Sequence[Any],
    recorded: Sequence[Any],
    pending: _Batches,
    ask: Callable[[list[Any]], Sequence[Any]],
) -> list[Any]:
    """The answers to all requests: the known ones, and those of the batches that are asked."""
    indices = sorted(index for batch in pending for index in batch)
    answers = list(recorded)
    if indices:
        _fill(answers, indices, ask([requests[index] for index in indices]))
    return answers


def _fill(answers: list[Any], indices: Sequence[int], results: Sequence[Any]) -> None:
    for index, answer in zip(indices, results, strict=True):
        if answers[index] is None:
            answers[index] = answer


def _of_likelihoods(requests: Sequence[Any], size: int) -> _Batches:
    """The longest first, and one pass for all that differ in their last token alone."""
    passes: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for index, (_, context, continuation) in enumerate(requests):
        passes[tuple(context + continuation[:-1])].append(index)

    def order(indices: list[int]) -> tuple[int, tuple[int, ...]]:
        _, context, continuation = requests[max(indices, key=lambda p: len(requests[p][2]))]
        return -len(context + continuation), tuple(context + continuation)

    ordered = sorted(passes.values(), key=order)
    return [
        [index for indices in ordered[at : at + size] for index in indices]
        for at in range(0, len(ordered), size)
    ]


def _of_generations(
    requests: Sequence[Any], size: int, encode: Callable[[str], list[int]]
) -> _Batches:
    """Those of the same settings together, the longest first."""
    groups: dict[str, list[int]] = defaultdict(list)
    for index, request in enumerate(requests):
        groups[json.dumps(request.args[1], sort_keys=True, default=str)].append(index)

    def order(index: int) -> tuple[int, str]:
        text = requests[index].args[0]
        return -len(encode(text)), text

    ordered = [sorted(indices, key=order) for indices in groups.values()]
    return [indices[at : at + size] for indices in ordered for at in range(0, len(indices), size)]


def _pieces(windows: Sequence[int], size: int) -> _Batches:
    """The fewest texts that fill whole batches together, one such run after another."""
    pieces: list[list[int]] = [[]]
    filled = 0
    for index, count in enumerate(windows):
        pieces[-1].append(index)
        filled += count
        if filled % size == 0:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _is_drawn(request: Any) -> bool:
    settings = request.args[1]
    return bool(settings.get("do_sample") or settings.get("temperature"))
