"""12 short cells of a 0.37 B model, one and two slots, beside a fresh process for each cell.

The model is random and made here: what is measured is starting, importing and loading, which a
slot does once and a fresh process twelve times. Every process computes with one thread. One
repetition takes two minutes; `--slots 2` leaves out the other. `--dtype float32 --tokens 1` is for
a CPU that is slow in bfloat16, so that a cell takes about half a second there too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measure import BENCHFLEET, Timed, arguments, folder, interleaved, show

CELLS = 12
CAMPAIGN = """\
campaign: warm
matrix:
  models: [{{name: m, path: {model}, model_kwargs: {{dtype: {dtype}}}}}]
  configs:
    dense: null
    window: {{attention: [{{sink: 4}}, {{local: 16}}]}}
    sink: {{attention: {{sink: 24}}}}
  benchmarks: [{{mock_benchmark: {{rows: 1, generation: {{max_new_tokens: {new}}}}}}}]
defaults: {{repeats: 4}}
"""
MAKE = """\
import sys, torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=24,
                     num_attention_heads=16, num_key_value_heads=16, vocab_size=32000,
                     max_position_embeddings=2048, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(sys.argv[1])
words = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"w{i}": i for i in range(3, 32000)}}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>",
                        eos_token="</s>", pad_token="<unk>").save_pretrained(sys.argv[1])
"""
FRESH = """\
import json, os, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
dtype = getattr(torch, sys.argv[4] if len(sys.argv) > 4 else "bfloat16")
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=dtype).eval()
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
ids = tokenizer(" ".join(f"w{n}" for n in range(3, 48)), return_tensors="pt").input_ids
with torch.inference_mode():
    made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=int(sys.argv[3]),
                          min_new_tokens=int(sys.argv[3]), do_sample=False, pad_token_id=0)
with open(sys.argv[2] + ".tmp", "w") as file:
    json.dump(made.tolist(), file)
os.rename(sys.argv[2] + ".tmp", sys.argv[2])
"""


def environment(threads: int = 1) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}


def python(*words: str, threads: int = 1) -> None:
    command = [sys.executable, "-c", *words]
    subprocess.run(command, check=True, env=environment(threads), capture_output=True)


def fresh(model: Path, work: Path, slots: int, dtype: str, tokens: int) -> Mapping[str, float]:
    """A process for each cell, `slots` at a time."""
    work.mkdir()
    begun = time.perf_counter()
    with ThreadPoolExecutor(slots) as pool:
        list(
            pool.map(
                lambda n: python(FRESH, str(model), str(work / str(n)), str(tokens), dtype),
                range(CELLS),
            )
        )
    return {"whole": time.perf_counter() - begun}


def warm(model: Path, work: Path, slots: int, dtype: str, tokens: int) -> Mapping[str, float]:
    """benchfleet with so many slots; its whole time, from the command to its end."""
    work.mkdir()
    (work / "warm.yaml").write_text(CAMPAIGN.format(model=model, new=tokens, dtype=dtype))
    begun = time.perf_counter()
    command = [*BENCHFLEET, "run", "warm.yaml", "--json", "--cpu-slots", str(slots)]
    done = subprocess.run(command, cwd=work, env=environment(), capture_output=True, text=True)
    took = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return {"whole": took}


def main() -> None:
    numbers, words = {"slots": None, "tokens": 6}, {"dtype": "bfloat16"}
    chosen = arguments(__doc__ or "", repeats=1, numbers=numbers, words=words)
    created = chosen.dtype, chosen.tokens
    with folder(chosen) as work:
        model = work / "model"
        python(MAKE, str(model))
        count = iter(range(10**6))

        def once(system: Callable[..., Mapping[str, float]], slots: int) -> Timed:
            return lambda: system(model, work / str(next(count)), slots, *created)

        for slots in [chosen.slots] if chosen.slots else (1, 2):
            figures = interleaved(
                {
                    "benchfleet": once(warm, slots),
                    "a process for each cell": once(fresh, slots),
                },
                chosen.repeats,
            )
            print(f"\n{slots} at a time")
            columns = {"whole": ("s for 12 cells", 1.0)}
            show(figures, columns, against="benchfleet", by="whole", arguments=chosen)


if __name__ == "__main__":
    main()
