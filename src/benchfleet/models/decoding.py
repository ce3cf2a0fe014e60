"""Continuing a batch of prompts on loaded weights: prefill, question, one token after another.

A batch lies in memory as ``[padding, context] [padding, question] answer``, padded on the left
in both parts. Positions count a row's own tokens only, so that padding shifts nothing. Contexts
are prefilled apart from their questions, and their keys and values are kept for the next batch:
what question and answer added is cropped off again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from inspect import signature
from typing import TYPE_CHECKING, Any

from benchfleet.errors import CellFailure
from benchfleet.models.attention.forward import SparseAttention
from benchfleet.models.attention.tally import Tally
from benchfleet.models.encoding import Encoded
from benchfleet.models.generation import Generation, penalized

if TYPE_CHECKING:
    from torch import Generator, Tensor

Ids = tuple[int, ...]


Forced = Callable[[Sequence[int]], "int | None"]


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """What followed a prompt, and what the sparse phase looked at."""

    ids: Ids
    cut: bool = False  # True: neither the model nor a stop ended it
    density: float | None = None  # None where nothing was sparse
    attention_error: float | None = None


@dataclass(kw_only=True)
class _Contexts:
    """Prefilled contexts, one a row."""

    rows: list[Ids]
    cache: Any  # transformers' Cache, holding these rows' keys and values
    mask: Tensor  # 1 for a token, 0 for padding: [batch, longest context]
    tally: Tally  # of the prefill; empty where that was dense


class Decoder:
    """A causal language model with the contexts that it has in memory."""

    def __init__(self, model: Any, attention: SparseAttention, *, ends: Sequence[int]) -> None:
        from transformers import cache_utils

        from benchfleet.models.cache import GrowingLayer, growing_cache

        self._model = model
        self._attention = attention
        self._ends = frozenset(ends)
        self._contexts: _Contexts | None = None
        self.everywhere = False  # sparse in the contexts' prefill too
        self.kv_bits: int | None = None  # of keys and values in the cache; None: not rounded
        accepted = signature(model.forward).parameters
        # The second name is that of transformers before 5.24, where Mamba took no such argument.
        names = (name for name in ("cache", "past_key_values") if name in accepted)
        self._cache_argument = next(names, "")
        layers = {type(layer) for layer in growing_cache(model.config).layers}
        recurrent = getattr(cache_utils, "LinearAttentionLayer", None)
        if not self._cache_argument or layers == {recurrent}:
            raise CellFailure(
                stage="load",
                kind="user_error",
                message=f"{type(model).__name__} keeps no keys and values, so this adapter"
                " cannot continue its texts; name a model with attention",
            )
        self._takes_positions = "position_ids" in accepted
        # A sliding window counts padding as keys, a recurrent state swallows it, and neither can
        # be cropped: such models answer one by one, keep no context and have transformers' cache.
        self.grows = layers <= {GrowingLayer}
        self._batches = self.grows and not _counts_columns(model, self._takes_positions)
        self.recurrent = not layers <= {GrowingLayer, cache_utils.DynamicSlidingWindowLayer}

    @property
    def cache_name(self) -> str:
        """The cache that answers are decoded with, for the provenance."""
        if not self.grows:
            return "transformers"
        return f"int{self.kv_bits}" if self.kv_bits else "growing"

    def forget(self) -> None:
        """Drop the contexts in memory."""
        self._contexts = None

    def generate_batch(
        self,
        batch: Sequence[Encoded],
        generation: Generation,
        generators: Sequence[Generator],
        ended: Callable[[Sequence[int]], bool],
        forced: Sequence[Forced] = (),
    ) -> list[Continuation]:
        """Continue each prompt until `ended` says so of its new tokens, or the model ends. The next
        token of a row is what its `forced` makes of its new tokens, unless that is None."""
        import torch

        if len(batch) > 1 and not self._batches:
            return [
                self.generate_batch(
                    [prompt],
                    generation,
                    generators[row : row + 1],
                    ended,
                    forced[row : row + 1],
                )[0]
                for row, prompt in enumerate(batch)
            ]
        if self.recurrent:  # a state takes up many tokens at once only where it is empty
            batch = [replace(p, context=(), question=p.context + p.question) for p in batch]
        with torch.inference_mode():
            return self._continue(batch, generation, generators, ended, forced)

    def _continue(
        self,
        batch: Sequence[Encoded],
        generation: Generation,
        generators: Sequence[Generator],
        ended: Callable[[Sequence[int]], bool],
        forced: Sequence[Forced],
    ) -> list[Continuation]:
        import torch

        contexts = self._prefilled([prompt.context for prompt in batch])
        tally = contexts.tally.chosen(range(len(batch)))
        ids, question_mask = self._padded([prompt.question for prompt in batch])
        mask = torch.cat((contexts.mask, question_mask), 1)
        samples = self._numbers([(*prompt.context, *prompt.question) for prompt in batch])
        logits = self._pass(ids, mask, question_mask.bool(), contexts.cache, tally, samples)
        answers: list[list[int]] = [[] for _ in batch]
        alive = [True] * len(batch)
        added = ids.shape[1]
        for remaining in reversed(range(generation.max_new_tokens)):
            texts = [(*p.context, *p.question, *a) for p, a in zip(batch, answers, strict=True)]
            logits = penalized(logits, texts, generation.repetition_penalty)
            tokens = generation.choose(logits, generators)
            for row, force in enumerate(forced):
                if alive[row] and (closing := force(answers[row])) is not None:
                    tokens[row] = closing
            for row, token in enumerate(tokens):
                if alive[row] and token not in self._ends:
                    answers[row].append(token)
                    alive[row] = not ended(answers[row])
                else:
                    alive[row] = False
            if not remaining or not any(alive):
                break
            new = torch.tensor(tokens, device=ids.device).unsqueeze(1)
            mask = torch.cat((mask, torch.ones_like(new)), 1)
            running = torch.tensor(alive, device=ids.device).unsqueeze(1)
            logits = self._pass(new, mask, running, contexts.cache, tally, samples)
            added += 1
        self._keep(contexts, added)
        return [
            Continuation(ids=tuple(answer), cut=cut, density=mean[0], attention_error=mean[1])
            if mean
            else Continuation(ids=tuple(answer), cut=cut)
            for answer, cut, mean in zip(answers, alive, tally.means(), strict=True)
        ]

    def _prefilled(self, required: list[Ids]) -> _Contexts:
        """The contexts in memory, one row for each required one. The caller stores them again, so
        that a failed pass leaves none behind."""
        contexts, self._contexts = self._contexts, None
        if contexts is None or not set(required) <= set(contexts.rows):
            contexts = None  # the old keys and values go before the new ones come
            contexts = self._prefill(list(dict.fromkeys(required)))
        if contexts.rows != required:
            rows = [contexts.rows.index(context) for context in required]
            index = contexts.mask.new_tensor(rows)
            contexts.cache.batch_select_indices(index)
            contexts = _Contexts(
                rows=required,
                cache=contexts.cache,
                mask=contexts.mask[index],
                tally=contexts.tally.chosen(rows),
            )
        return contexts

    def _prefill(self, rows: list[Ids]) -> _Contexts:
        from benchfleet.models.cache import GrowingLayer, growing_cache
        from benchfleet.models.quantized_cache import QuantizedLayer

        ids, mask = self._padded(rows)
        layer = partial(QuantizedLayer, self.kv_bits) if self.kv_bits else GrowingLayer
        cache = growing_cache(self._model.config, layer)
        tally = Tally(len(rows), ids.device)
        if ids.shape[1]:
            used = tally if self.everywhere else None
            self._pass(ids, mask, mask.bool(), cache, used, self._numbers(rows))
        return _Contexts(rows=rows, cache=cache, mask=mask, tally=tally)

    def _keep(self, contexts: _Contexts, added: int) -> None:
        if self.grows and contexts.mask.shape[1]:
            contexts.cache.crop(-added)
            self._contexts = contexts

    def _padded(self, rows: Sequence[Ids]) -> tuple[Tensor, Tensor]:
        """The rows as ids and mask, padded on the left with a token that nothing looks at."""
        import torch

        width = max(len(row) for row in rows)
        device = self._model.get_input_embeddings().weight.device
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[index, width - len(row) :] = torch.tensor(row, dtype=torch.long)
            mask[index, width - len(row) :] = 1
        return ids.to(device), mask.to(device)

    def _numbers(self, rows: Sequence[Ids]) -> Tensor:
        """A number for each row's text, from which random attention draws: int64 [batch]."""
        import torch

        digests = [blake2b(repr(row).encode(), digest_size=8).digest() for row in rows]
        numbers = [int.from_bytes(digest, "big", signed=True) for digest in digests]
        return torch.tensor(numbers, device=self._model.get_input_embeddings().weight.device)

    def _pass(
        self,
        ids: Tensor,
        mask: Tensor,
        counted: Tensor,
        cache: Any,
        tally: Tally | None,
        samples: Tensor,
    ) -> Tensor:
        """Run the model over new tokens; the logits after the last, [batch, vocabulary]."""
        positions = {}
        if self._takes_positions:
            positions["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        with self._attention.counting(tally, counted, cache=cache, samples=samples):
            logits: Tensor = self._model(
                input_ids=ids,
                attention_mask=mask,
                use_cache=True,
                logits_to_keep=1,
                **{self._cache_argument: cache},
                **positions,
            ).logits[:, -1]
        check_logits(logits)
        return logits


def check_logits(logits: Tensor) -> None:
    """Raise CellFailure where a logit is NaN; any shape."""
    if logits.numel() and bool(logits.amax().isnan()):  # isnan() of all takes memory
        raise CellFailure(
            stage="benchmark",
            kind="bad_result",
            message="the model's logits are not numbers; load it with another dtype,"
            " such as model_kwargs: {dtype: bfloat16} or float32",
        )


def check_output(module: Any, args: Any, output: Any) -> None:
    """Check what a harness's own pass of the model returned; a forward hook."""
    if (logits := getattr(output, "logits", None)) is not None:
        check_logits(logits)


def _counts_columns(model: Any, takes_positions: bool) -> bool:
    """Whether padding within a row shifts positions: GPT-Neo's local windows count columns, and so
    do models that take no positions and do not derive them from the mask, such as MPT."""
    kind = model.config.model_type
    return kind == "gpt_neo" or not (takes_positions or kind == "bloom")
