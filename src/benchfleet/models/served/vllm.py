"""Models on ``vllm serve``, with LoRA adapters on the weights of their base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from benchfleet.domain.cell import Model
from benchfleet.errors import CellFailure
from benchfleet.models.base import Prompt
from benchfleet.models.lora import check_unchanged, lora_digest, lora_rank, not_applied
from benchfleet.models.served.managed import ManagedAdapter

_MAX_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # that ``--max-lora-rank`` takes
_PROBE, _PROBE_TOKENS = Prompt(context="The quick brown fox jumps over"), 8


class VllmAdapter(ManagedAdapter):
    """A model on ``vllm serve``.

    One server has the base and all its LoRA adapters of the campaign, whose folders by name are
    the setting ``loras``. A request names the adapter as its model.
    """

    recipe: ClassVar[str] = "vllm"
    example: ClassVar[str] = "{adapter: vllm, model: Qwen/Qwen3-0.6B}"
    outside: ClassVar[tuple[str, ...]] = (*ManagedAdapter.outside, "loras")

    def __init__(self, model: Model, **settings: Any) -> None:
        super().__init__(model, **settings)
        self._applied: set[str] = set()  # the LoRA adapters that are known to work, by name

    @classmethod
    def lora_digest(cls, folder: str) -> str:
        return lora_digest(folder)

    @classmethod
    def options(cls, model: Model) -> list[str]:
        """Those for its LoRA adapters. Raises ValueError if one is not there, or too large."""
        loras: Mapping[str, str] = model.kwargs.get("loras") or {}
        if not loras:
            return []
        ranks = {name: lora_rank(folder) for name, folder in loras.items()}
        largest = max(ranks, key=ranks.__getitem__)
        allowed = next((rank for rank in _MAX_RANKS if rank >= ranks[largest]), None)
        if allowed is None:
            raise ValueError(
                f"the LoRA adapter {largest} has rank {ranks[largest]}, and vLLM takes "
                f"{_MAX_RANKS[-1]} at most; merge its weights"
            )
        modules = [f"{name}={folder}" for name, folder in sorted(loras.items())]
        return ["--enable-lora", "--max-lora-rank", str(allowed), "--lora-modules", *modules]

    def model_name(self) -> str:
        return self.model.name if self.model.lora_digest else super().model_name()

    def switch(self, model: Model) -> None:
        """Name the LoRA adapter of `model`, or the base, in requests from now on.

        Raises CellFailure `lora_not_applied` if answers and log-probabilities stay those of the
        base, and ValueError if the adapter is another than declared.
        """
        if model.lora_digest:
            check_unchanged(model)
        self.restart_if_dead()
        self.model = model
        self._wire = self.protocol(self.model_name(), self.settings())
        if model.lora_digest and model.name not in self._applied:
            if self._probe(model.name) == self._probe(self.path_of(model)):
                raise not_applied(model)
            self._applied.add(model.name)

    def provenance(self) -> Mapping[str, Any]:
        lora = {"lora_digest": self.model.lora_digest} if self.model.lora_digest else {}
        return {**super().provenance(), **lora}

    def _probe(self, name: str) -> tuple[str, float | None]:
        """The greedy answer of a model of the server, and its mean log-probability."""
        if self._client is None:
            raise RuntimeError("the model is not loaded")
        wire = self.protocol(name, {**self.settings(), "logprobs": True})
        body = wire.body(_PROBE, {"max_new_tokens": _PROBE_TOKENS, "temperature": 0.0})
        try:
            ((_, value),) = self._client.post_each(wire.path, [body], keeps_errors=False)
            reply = wire.reply(value)
        except CellFailure as error:
            raise self.explain(error, "load") from error
        return reply.text, reply.logprob
