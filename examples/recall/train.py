"""Train the demo model: a tiny Llama that recalls the value of a key from anywhere in its text.

The text is lower-case filler with records such as ``K7`` (an upper-case key and its digit). At
its end stands a question, ``?K``, and the model is to say ``7``. Dense attention finds the record
at any distance; a window cannot once the record has left it. That makes the checkpoint, small
as it is, a real subject for comparing attention configs.

A transformer learns this in a sudden step, or never: from the needle task alone it stays at
chance. Three things take it there in about two minutes on two cores:

* It first copies a random string that stands there twice, in turn with recalling keys from a
  dense list of records: both teach attention to look up what followed an earlier equal token.
* Weights start wider (0.08 instead of the usual 0.02).
* Texts grow from 48 to 1024 characters, each time the present length is mastered.

Trained again with the same ``--steps``, ``--seed`` and ``--threads`` by the same versions on the
same kind of processor, the weights are equal bit for bit.
"""
# ruff: noqa: S106 - these tokens are no passwords

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
KEYS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGITS = "0123456789"
FILLER = "etaoinshrdlu   "  # every fifth character is a space
VOCABULARY = (*SPECIAL, *"abcdefghijklmnopqrstuvwxyz", *KEYS, *DIGITS, *" ?.,:;=\n")
TOKEN = {token: number for number, token in enumerate(VOCABULARY)}
KEY_TOKENS, DIGIT_TOKENS, FILLER_TOKENS = (
    torch.tensor([TOKEN[c] for c in text]) for text in (KEYS, DIGITS, FILLER)
)

LENGTHS = (48, 64, 128, 256, 512, 1024)  # the curriculum; the first is the warm-up's
MASTERED = 0.95  # moving average of the accuracy that opens the next length
REVISION = 0.25  # share of the steps that go back to an earlier length
TOKENS_A_STEP = 4096
LEARNING_RATE = 3e-3
EVALUATED_RECORDS = 16
SINK = 4  # first positions that every window keeps


class Batch(NamedTuple):
    """Token ids of shape (rows, length), and where in each row a value is to be foretold."""

    tokens: torch.Tensor
    asked: torch.Tensor  # (questions,): the positions of the keys; the value stands one further
    counted: torch.Tensor  # (rows, questions), bool: False where the value cannot be known


def copy_batch(rows: int, length: int, draw: torch.Generator) -> Batch:
    """A random string of keys and digits, twice: all of the second half can be known."""
    half = length // 2
    alphabet = torch.cat([KEY_TOKENS, DIGIT_TOKENS])
    once = alphabet[torch.randint(len(alphabet), (rows, half), generator=draw)]
    asked = torch.arange(half + 1, 2 * half - 1)
    return Batch(once.repeat(1, 2), asked, torch.ones(rows, len(asked), dtype=torch.bool))


def list_batch(rows: int, length: int, records: int, draw: torch.Generator) -> Batch:
    """Records without filler, each repeated many times: every repetition is predictable."""
    keys, values = _records(rows, records, draw)
    told = torch.randint(records, (rows, length // 2), generator=draw)
    tokens = torch.stack([keys.gather(1, told), values.gather(1, told)], -1).flatten(1)
    told_before = (told[:, :, None] == told[:, None, :]).tril(-1).any(-1)
    return Batch(tokens, torch.arange(length // 2) * 2, told_before)


def needle_batch(
    rows: int, length: int, records: int, questions: int, draw: torch.Generator
) -> Batch:
    """``<s>``, filler with records at odd positions, then ``questions`` times ``?`` key value."""
    tail = 3 * questions
    places = (length - 1 - tail) // 2
    records = min(records, places, len(KEYS))
    tokens = FILLER_TOKENS[torch.randint(len(FILLER_TOKENS), (rows, length), generator=draw)]
    tokens[:, 0] = TOKEN["<s>"]
    keys, values = _records(rows, records, draw)
    at = _different(rows, places, records, draw) * 2 + 1
    tokens.scatter_(1, at, keys).scatter_(1, at + 1, values)
    picked = torch.randint(records, (rows, questions), generator=draw)
    asked = length - tail + torch.arange(questions) * 3 + 1
    tokens[:, asked - 1] = TOKEN["?"]
    tokens[:, asked] = keys.gather(1, picked)
    tokens[:, asked + 1] = values.gather(1, picked)
    return Batch(tokens, asked, torch.ones(rows, questions, dtype=torch.bool))


def _records(rows: int, count: int, draw: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    keys = KEY_TOKENS[_different(rows, len(KEYS), count, draw)]
    return keys, DIGIT_TOKENS[torch.randint(len(DIGITS), (rows, count), generator=draw)]


def _different(rows: int, among: int, count: int, draw: torch.Generator) -> torch.Tensor:
    """In each row `count` different numbers below `among`, in random order."""
    return torch.rand(rows, among, generator=draw).argsort(1)[:, :count]


def new_model() -> LlamaForCausalLM:
    """The untrained model: two layers, because looking up takes two steps of attention."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.08,
        tie_word_embeddings=True,
        pad_token_id=TOKEN["<pad>"],
        bos_token_id=TOKEN["<s>"],
        eos_token_id=TOKEN["</s>"],
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config)


def new_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character; ``<s>`` is put in front by itself, as the model was trained."""
    from tokenizers import Tokenizer, decoders, models, processors
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE(vocab=dict(TOKEN), merges=[], unk_token="<unk>"))
    inner.decoder = decoders.Fuse()
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", TOKEN["<s>"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=4096,
        clean_up_tokenization_spaces=False,
    )


def train(model: LlamaForCausalLM, *, steps: int, seed: int) -> None:
    """Take `steps` steps through the curriculum, printing how far it is."""
    draw = torch.Generator().manual_seed(seed + 1)
    choose = random.Random(seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01
    )
    stage, mastery, begun = 0, 0.0, time.monotonic()
    model.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * _rate(step, steps)
        revising = stage > 0 and choose.random() < REVISION
        lesson = choose.randint(0, stage) if revising else stage
        copying = lesson == 0 and step % 2 == 1
        batch = _lesson(
            LENGTHS[lesson], warm_up=lesson == 0, copying=copying, choose=choose, draw=draw
        )

        hidden = model.model(batch.tokens, use_cache=False).last_hidden_state[:, batch.asked]
        scores, values = model.lm_head(hidden), batch.tokens[:, batch.asked + 1]
        loss = functional.cross_entropy(scores[batch.counted], values[batch.counted])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

        if lesson == stage and not copying:
            right = (scores.argmax(-1) == values)[batch.counted].float().mean().item()
            mastery = 0.95 * mastery + 0.05 * right
        if mastery > MASTERED and stage < len(LENGTHS) - 1:
            stage, mastery = stage + 1, 0.0
        if (step + 1) % 100 == 0 or step + 1 == steps:
            seconds = time.monotonic() - begun
            print(
                f"step {step + 1:>4} of {steps}   {seconds:4.0f} s   length {LENGTHS[stage]:>4}"
                f"   loss {loss.item():.3f}   accuracy {mastery:.2f}",
                flush=True,
            )


def _rate(step: int, steps: int) -> float:
    """The learning rate's factor: 50 steps up, level, and down over the last two fifths."""
    done = step / steps
    return min(1.0, (step + 1) / 50) * (1.0 if done < 0.6 else max(0.02, (1 - done) / 0.4))


def _lesson(
    length: int, *, warm_up: bool, copying: bool, choose: random.Random, draw: torch.Generator
) -> Batch:
    rows = max(8, TOKENS_A_STEP // length)
    if copying:
        return copy_batch(rows, length, draw)
    if warm_up:
        return list_batch(rows, length, choose.choice((4, 6, 8, 12)), draw)
    questions = 8 if length >= 64 else 4
    return needle_batch(rows, length, choose.choice((1, 2, 4, 8, 16)), questions, draw)


@torch.no_grad()
def accuracy(
    model: LlamaForCausalLM, length: int, window: int | None, *, samples: int, seed: int = 0
) -> float:
    """The share of single questions answered right, over `samples` new texts of `length`.

    With a `window`, the question's tokens see the first `SINK` positions and the last `window`
    only; the text in front of them has been read with dense attention.
    """
    query, key = torch.arange(length)[:, None], torch.arange(length)[None]
    seen = key <= query
    if window is not None:
        in_question = query >= length - 3
        seen &= ~in_question | (key < SINK) | (key > query - window)
    mask = torch.zeros(length, length).masked_fill(~seen, torch.finfo(torch.float32).min)
    draw = torch.Generator().manual_seed(seed)
    right = 0
    model.eval()
    for start in range(0, samples, 32):
        rows = min(32, samples - start)
        batch = needle_batch(rows, length, EVALUATED_RECORDS, 1, draw)
        scores = model(batch.tokens, attention_mask=mask.expand(rows, 1, -1, -1)).logits
        said = scores[:, batch.asked].argmax(-1)
        right += int((said == batch.tokens[:, batch.asked + 1]).sum())
    return right / samples


def print_accuracies(model: LlamaForCausalLM, samples: int) -> None:
    """A table of accuracies, length by window. Chance is 0.10."""
    windows = (None, 8, 32, 128, 256)
    names = ("dense" if window is None else f"window {window}" for window in windows)
    print(f"accuracy over {samples} samples (chance 0.10)")
    print("length " + "".join(f"{name:>12}" for name in names))
    for length in (128, 512, 1024):
        found = (accuracy(model, length, window, samples=samples) for window in windows)
        print(f"{length:>6} " + "".join(f"{share:>12.2f}" for share in found), flush=True)


def save(model: LlamaForCausalLM, folder: Path) -> None:
    """Write the model in half precision and its tokenizer, as Hugging Face lays them out."""
    model.eval().to(torch.float16).save_pretrained(folder)
    new_tokenizer().save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Train the demo model of benchfleet and write it as a Hugging Face checkpoint."
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the checkpoint")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2, help="processor cores to use")
    parser.add_argument(
        "--samples", type=int, default=256, help="for the accuracies at the end; 0 for none"
    )
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(options.seed)
    model = new_model()
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    train(model, steps=options.steps, seed=options.seed)
    save(model, options.out)
    if options.samples:
        print_accuracies(model.float(), options.samples)


if __name__ == "__main__":
    main()
