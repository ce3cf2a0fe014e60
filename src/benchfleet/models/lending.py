"""A loaded model lent to a harness that makes the model's passes itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy

from benchfleet.errors import CellFailure
from benchfleet.models.attention.forward import SparseAttention
from benchfleet.models.attention.tally import Tally
from benchfleet.models.base import Loan
from benchfleet.models.decoding import Continuation, check_output
from benchfleet.models.loaded_model import LoadedModel
from benchfleet.models.loading import out_of_memory
from benchfleet.models.measures import attention_measures


@contextmanager
def lent(loaded: LoadedModel, attention: SparseAttention) -> Iterator[Loan]:
    """Lend the model until the context ends. Its passes know of no context and no question, so a
    sparse config is sparse in all of them. Raises CellFailure for configs that cannot be."""
    why = ""
    if any(step.question == "dense" for step in attention.steps):
        why = "many tokens at once, which question: dense leaves dense; set question: sparse"
    elif loaded.decoder.kv_bits:
        why = "with a cache of its own; leave kv_cache out for it"
    if why:
        message = f"this benchmark makes the model's passes itself, {why}"
        raise CellFailure(stage="benchmark", kind="user_error", message=message)
    loaded.decoder.forget()
    tally = Tally(1, loaded.model.get_input_embeddings().weight.device)
    continuation = Continuation(ids=())

    def measures() -> Mapping[str, float]:
        nonlocal continuation
        if mean := tally.means()[0]:
            continuation = Continuation(ids=(), density=mean[0], attention_error=mean[1])
        tally.clear()
        return attention_measures(loaded.model, attention, continuation)

    hook = loaded.model.register_forward_hook(check_output)
    ours = loaded.model.config._attn_implementation
    if not attention.steps:  # a harness's passes are those of the model alone
        loaded.model.set_attn_implementation(loaded.own)
    try:
        with out_of_memory("benchmark"), attention.counting_all(tally):
            yield Loan(model=loaded.model, tokenizer=deepcopy(loaded.tokenizer), measures=measures)
    finally:
        hook.remove()
        loaded.model.set_attn_implementation(ours)
