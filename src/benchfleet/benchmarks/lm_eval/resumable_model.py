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
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from lm_eval.models.huggingface import HFLM
from lm_eval.utils import get_rolling_token_windows

from benchfleet.benchmarks.base import Session

_Batches = Sequence[Sequence[int]]  # places among the requests, in the order of asking


class ResumedLM(HFLM):  # type: ignore[misc]
    """A loaded model whose cache hook is `Answers`, which knows what was answered before."""

    def __init__(self, *, session: Session, **settings: Any) -> None:
        super().__init__(**settings)
        self._session = session
        self._known: Sequence[Any] = ()  # of the log-likelihoods that are being asked

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
        self._known = self.cache_hook.known(requests)
        return super().loglikelihood(requests, disable_tqdm=disable_tqdm)

    def _loglikelihood_tokens(self, requests: Any, *args: Any, **kwargs: Any) -> Any:
        known, self._known = self._known, ()
        ask = super()._loglikelihood_tokens
        if all(answer is None for answer in known):  # as for the windows of a rolling one
            return ask(requests, *args, **kwargs)
        wanted = _unknown(_of_likelihoods(requests, self.batch_size), known)
        return _completed(requests, known, wanted, lambda left: ask(left, *args, **kwargs))

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> Any:
        """In pieces that end where a batch ends: lm-eval by itself tells of no answer before it
        has them all."""
        known = self.cache_hook.known(requests)
        windows = [self._windows(request.args[0]) for request in requests]
        ask = super().loglikelihood_rolling
        answers: list[Any] = []
        for piece in _pieces(windows, self.batch_size):
            earlier = [known[place] for place in piece]
            if any(answer is None for answer in earlier):
                asked = [requests[place] for place in piece]
                _fill(earlier, range(len(piece)), ask(asked, disable_tqdm=disable_tqdm))
            answers += earlier
        return answers

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> Any:
        known = self.cache_hook.known(requests)
        ask = super().generate_until
        if all(answer is None for answer in known):
            return ask(requests, disable_tqdm=disable_tqdm)
        batches = _of_generations(requests, self.batch_size, self.tok_encode)
        drawn = any(map(_is_drawn, requests))
        wanted = self._to_draw(requests, known, batches) if drawn else _unknown(batches, known)
        return _completed(requests, known, wanted, lambda left: ask(left, disable_tqdm))

    def _to_draw(self, requests: Any, known: Sequence[Any], batches: _Batches) -> _Batches:
        """The batches from the first that is not known on, with the random numbers as they were
        then: each answer that is drawn depends on all before it."""
        order = [place for batch in batches for place in batch]
        last = {requests[place].doc_id: place for place in order}  # its document is recorded then
        cut, state = 0, ""
        for number, batch in enumerate(batches, start=1):
            if any(known[place] is None for place in batch):
                break
            for place in batch:
                chance = self.cache_hook.chance_after(requests[place].doc_id)
                if last[requests[place].doc_id] == place and chance:
                    cut, state = number, chance
        if state:
            self._set_chance(state)
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
            found = super()._model_generate(context, *args, **kwargs)
        drawn = kwargs.get("do_sample") or kwargs.get("temperature")
        self.cache_hook.chance = self._chance() if drawn else ""
        return found

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

    def _chance(self) -> str:
        """The state of the random numbers that answers are drawn by: 16 bytes of a GPU, 5 kB of
        a CPU."""
        gpu = self.device.type == "cuda"
        state = torch.cuda.get_rng_state(self.device) if gpu else torch.get_rng_state()
        return base64.b64encode(bytes(state.tolist())).decode()

    def _set_chance(self, chance: str) -> None:
        state = torch.tensor(list(base64.b64decode(chance)), dtype=torch.uint8)
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state, self.device)
        else:
            torch.set_rng_state(state)


def _unknown(batches: _Batches, known: Sequence[Any]) -> _Batches:
    """The batches of which not all is known."""
    return [batch for batch in batches if any(known[place] is None for place in batch)]


def _completed(
    requests: Sequence[Any],
    known: Sequence[Any],
    wanted: _Batches,
    ask: Callable[[list[Any]], Sequence[Any]],
) -> list[Any]:
    """The answers to all requests: the known ones, and those of the batches that are asked."""
    left = sorted(place for batch in wanted for place in batch)
    answers = list(known)
    if left:
        _fill(answers, left, ask([requests[place] for place in left]))
    return answers


def _fill(answers: list[Any], places: Sequence[int], given: Sequence[Any]) -> None:
    for place, answer in zip(places, given, strict=True):
        if answers[place] is None:
            answers[place] = answer


def _of_likelihoods(requests: Sequence[Any], size: int) -> _Batches:
    """The longest first, and one pass for all that differ in their last token alone."""
    passes: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, (_, context, continuation) in enumerate(requests):
        passes[tuple(context + continuation[:-1])].append(place)

    def order(places: list[int]) -> tuple[int, tuple[int, ...]]:
        _, context, continuation = requests[max(places, key=lambda p: len(requests[p][2]))]
        return -len(context + continuation), tuple(context + continuation)

    ordered = sorted(passes.values(), key=order)
    return [
        [place for places in ordered[at : at + size] for place in places]
        for at in range(0, len(ordered), size)
    ]


def _of_generations(
    requests: Sequence[Any], size: int, encode: Callable[[str], list[int]]
) -> _Batches:
    """Those of the same settings together, the longest first."""
    alike: dict[str, list[int]] = defaultdict(list)
    for place, request in enumerate(requests):
        alike[json.dumps(request.args[1], sort_keys=True, default=str)].append(place)

    def order(place: int) -> tuple[int, str]:
        text = requests[place].args[0]
        return -len(encode(text)), text

    ordered = [sorted(places, key=order) for places in alike.values()]
    return [places[at : at + size] for places in ordered for at in range(0, len(places), size)]


def _pieces(windows: Sequence[int], size: int) -> _Batches:
    """The fewest texts that fill whole batches together, one such run after another."""
    pieces: list[list[int]] = [[]]
    filled = 0
    for place, count in enumerate(windows):
        pieces[-1].append(place)
        filled += count
        if filled % size == 0:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _is_drawn(request: Any) -> bool:
    settings = request.args[1]
    return bool(settings.get("do_sample") or settings.get("temperature"))
